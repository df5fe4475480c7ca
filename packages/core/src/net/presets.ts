import type { Preset, Rule } from '@anchorhold/protocol/policy'

type NetRule = Extract<Rule, { readonly on: 'net' }>
type NetMatch = NetRule['match']

/** What a rule says that names a preset in the place of a host. */
export type PresetRule = Pick<NetRule, 'on' | 'effect' | 'how' | 'only_ours' | 'why'> & { readonly preset: Preset }

const reading = ['GET', 'HEAD']
const read = (host: string, port = 443): NetMatch => ({ host, port, method: reading })
const post = (host: string, path: string): NetMatch => ({ host, port: 443, method: 'POST', path })

/** What a git server is asked by who clones and fetches, with what it keeps in LFS. Nothing here can push: for that there are forges. */
const fetching = (host: string): NetMatch[] => [
  read(host),
  post(host, '*/git-upload-pack'),
  post(host, '*/info/lfs/objects/batch'),
]

/** The hosts of each toolchain, and what is asked of them by who installs. Invariant: nothing is published by these. */
export const presets: Readonly<Record<Preset, readonly NetMatch[]>> = {
  git: [
    ...['github.com', 'gitlab.com', 'bitbucket.org', 'codeberg.org'].flatMap(fetching),
    // Where GitHub sends who asks for archives, releases and LFS objects.
    ...['codeload', 'raw', 'objects', 'release-assets', 'media', 'github-cloud'].map((name) =>
      read(name === 'codeload' ? 'codeload.github.com' : `${name}.githubusercontent.com`),
    ),
  ],
  npm: [
    ...['registry.npmjs.org', 'registry.yarnpkg.com', 'repo.yarnpkg.com'].map((host) => read(host)),
    post('registry.npmjs.org', '/-/npm/v1/security/*'),
  ],
  pypi: ['pypi.org', 'files.pythonhosted.org'].map((host) => read(host)),
  crates: [
    ...['index.crates.io', 'static.crates.io', 'crates.io'].map((host) => read(host)),
    // The index of a cargo before 1.70.
    { host: 'github.com', port: 443, method: reading, path: '/rust-lang/crates.io-index*' },
    post('github.com', '/rust-lang/crates.io-index*/git-upload-pack'),
  ],
  go: ['proxy.golang.org', 'sum.golang.org'].map((host) => read(host)),
  maven: [
    'repo.maven.apache.org',
    'repo1.maven.org',
    'plugins.gradle.org',
    'plugins-artifacts.gradle.org',
    'services.gradle.org',
  ].map((host) => read(host)),
  debian: ['deb.debian.org', 'security.debian.org'].flatMap((host) => [read(host, 80), read(host)]),
}

/** The rules that a preset stands for. What is allowed is what its toolchain needs; what is denied or asked for, and what is passed on
 *  unread, is the whole of each host. */
export function presetRules({ preset, ...rest }: PresetRule): NetRule[] {
  const isRead = rest.effect === 'allow' && rest.how !== 'tunnel'
  const whole = new Map(
    presets[preset].map(({ host, port }) => [`${host}:${port}`, { host, ...(port === undefined ? {} : { port }) }]),
  )
  return (isRead ? presets[preset] : [...whole.values()]).map((match) => ({ ...rest, match, preset }))
}
