import type { Rung } from '@anchorhold/protocol/rungs'
import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { giveTo } from '../e2e/host.ts'
import { type Installation, installation, isRoot, outputsOf, script, someone } from '../e2e/installation.ts'
import { scan } from '../e2e/scan.ts'
import { commands, shown } from '../registries/commands.ts'
import { cratesRegistry } from '../registries/crates.ts'
import { giveCredentials, secretCore, secretOf, shownAt } from '../registries/credentials.ts'
import { type Forge, forge } from '../registries/forge.ts'
import { goRegistry } from '../registries/go.ts'
import { mavenRegistry } from '../registries/maven.ts'
import { npmRegistry } from '../registries/npm.ts'
import { type Registries, serveRegistries } from '../registries/registries.ts'
import { demanding } from '../registries/registry.ts'

/** A forge and registries that demand credentials, and an installation that has them. */
export interface Setting extends AsyncDisposable {
  readonly github: Forge
  readonly servers: Registries
  readonly it: Installation
  /** A folder with a program that looks for all these credentials, from inside. */
  withScan(): string
}

export async function setUp(): Promise<Setting> {
  const scratch = mkdtempSync(join(tmpdir(), 'ah-toolchains-'))
  const github = forge(scratch, secretOf('forge'))
  github.repository('somebody/public', { README: 'cloned through the window\n' })
  github.repository('me/mine', { README: 'cloned through the window\n' }, 'private')
  const index = join(github.folder, 'rust-lang/crates.io-index.git')
  const [npm, go, maven] = [npmRegistry(scratch), goRegistry(scratch), mavenRegistry(scratch)]
  const servers = await serveRegistries(scratch, [
    github,
    demanding(secretOf('crates'), cratesRegistry(scratch, index)),
    ...[demanding(secretOf('npm'), npm), demanding(secretOf('go'), go), demanding(secretOf('maven'), maven)],
  ])
  const presets = ['git', 'npm', 'crates', 'go', 'maven'].map((name) => `  - { on: net, preset: ${name}, effect: allow }\n`)
  const graphql = Object.entries({ '': 'allow', '/mutation/createPullRequest': 'allow', '/mutation/delete*': 'deny' }).map(
    ([path, effect]) =>
      `  - { on: net, match: { host: api.github.com, method: POST, path: "/graphql${path}" }, effect: ${effect} }\n`,
  )
  const it = await installation({
    config: `net_ca: ${servers.caPath}\n${servers.mirrors}forges: { github.com: { push: { branches: ["agent/*"] } } }\n`,
    policy: `rules:\n${presets.join('')}${graphql.join('')}`,
  })
  await giveCredentials(it, [
    { host: 'github.com', path: '/me/mine*', basic: 'x-access-token', secret: 'forge' },
    { host: 'api.github.com', header: 'Authorization', secret: 'forge', env: 'GH_TOKEN' },
    { host: 'registry.npmjs.org', header: 'Authorization', secret: 'npm', env: 'NPM_TOKEN' },
    ...['index.crates.io', 'static.crates.io'].map((host) => ({ host, header: 'Authorization', secret: 'crates' })),
    { host: 'proxy.golang.org', basic: 'reader', secret: 'go' },
    { host: 'repo.maven.apache.org', basic: 'reader', secret: 'maven' },
  ])
  if (process.env.ANCHORHOLD_IMAGES !== undefined) {
    symlinkSync(process.env.ANCHORHOLD_IMAGES, join(it.state, 'images'))
    expect(await it.cli(['image', 'build'])).toMatchObject({ code: 0 })
  }
  return {
    github,
    servers,
    it,
    withScan: () => it.workspace({ 'scan.pl': scan(secretCore) }),
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]()
      await servers[Symbol.asyncDispose]()
      rmSync(scratch, { recursive: true })
    },
  }
}

/** Puts the program that pnpm is into a folder. */
export function putPnpm(workspace: string): void {
  const modules = join(import.meta.dirname, 'clients/node_modules/@pnpm')
  copyFileSync(join(modules, `exe.${process.platform}-${process.arch}`, 'pnpm'), join(workspace, 'pnpm'))
  chmodSync(join(workspace, 'pnpm'), 0o755)
}

/** Puts npm into a folder, for cells whose root has none, and says how it is called there. By our own Node: that of an image may be older
 *  than npm likes. One file, unpacked in the cell's own memory: each of two thousand would be asked for over a shared folder. Nor is
 *  code compiled twice where the processor is worked out in software. */
function putNpm(workspace: string): string {
  const modules = execFileSync('npm', ['root', '--global'], { encoding: 'utf8' }).trim()
  execFileSync('tar', ['-cf', join(workspace, 'npm.tar'), '-C', modules, 'npm'])
  const node = '/opt/anchorhold/forwarder/node --no-opt'
  return `tar -xf npm.tar -C /tmp; npm() { ${node} /tmp/npm/bin/npm-cli.js "$@"; }`
}

/** A prompt that has these lines carried out. */
export const typed = (...lines: readonly string[]): string =>
  script({ tool_use: 'Bash', input: { command: lines.join('\n'), timeout: 300_000 } }, { text: 'done' })

/** What the scan says. In gVisor a process cannot look into the memory of another. */
export const nothingFound = (rung: Rung = 'bwrap'): RegExp =>
  new RegExp(
    `scanned files=\\d{2,} bytes=\\d{4,} processes=[1-9]\\d* memory=\\d${rung === 'gvisor' ? '+' : '{6,}'} found=0 ?$`,
    'm',
  )

export const identity = 'git config --global user.name a; git config --global user.email a@b'

/** On this rung git clones and pushes, npm installs and curl calls, with credentials that only the servers see. */
export async function allThreeOn(rung: Rung, setting: Setting): Promise<void> {
  const { it, servers, withScan } = setting
  servers.seen.length = 0
  const { events } = await it.run(typed(...allThree(rung)), { rung, repo: 'me/mine', workspace: withScan() })
  expect(events.at(-1), JSON.stringify(events.slice(-3))).toMatchObject({ type: 'session.state', body: { to: 'ready' } })
  holdAllThree(rung, setting, outputsOf(events))
}

/** The same on the rung microvm, typed by a person: an agent beside it would take most of a processor that is worked out in software. The
 *  folder is that of the repository, as a person's is. */
export async function allThreeInMachine(setting: Setting): Promise<void> {
  const { it, servers, withScan } = setting
  servers.seen.length = 0
  const workspace = withScan()
  const npm = putNpm(workspace)
  for (const args of [
    ['init', '-q'],
    ['remote', 'add', 'origin', 'https://github.com/me/mine.git'],
  ])
    execFileSync('git', ['-c', 'safe.directory=*', ...args], { cwd: workspace })
  if (isRoot) giveTo(workspace, someone)
  const lines = allThree('microvm', npm).join('\n')
  const cell = ['sandbox', '--rung', 'microvm', '--workspace', workspace, '--net', 'proxy', '--', 'sh', '-c', lines]
  const { out, err } = await it.cli(cell)
  holdAllThree('microvm', setting, `${out}${err}`)
}

/** What is typed there. `npm` is what brings a client of npm's along, where the cell has none. */
const allThree = (rung: Rung, npm = ':'): readonly string[] => [
  `${identity}; git clone -q https://github.com/me/mine.git r && cat r/README`,
  `cd r && git commit -q --allow-empty -m second && git push -q origin HEAD:refs/heads/agent/${rung}; echo "push $?"; cd ..`,
  `${npm}; printf '//registry.npmjs.org/:_authToken=\${NPM_TOKEN}\\n' > ~/.npmrc; (${commands.npm})`,
  `(${commands.curl})`,
  'perl scan.pl',
]

function holdAllThree(rung: Rung, { github, servers }: Setting, said: string): void {
  for (const name of ['curl', 'git', 'npm'] as const) expect(said, name).toContain(shown[name])
  expect(said).toContain('push 0')
  expect(said).not.toMatch(/certificate/i)
  expect(said).toMatch(nothingFound(rung))
  expect(github.git('me/mine', 'log', '--format=%s', `agent/${rung}`)).toContain('second')
  expect(shownAt(servers.seen, 'github.com')).toEqual([secretOf('forge')])
  expect(shownAt(servers.seen, 'registry.npmjs.org')).toEqual([secretOf('npm')])
}
