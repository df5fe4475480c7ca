import type { Rung } from '@anchorhold/protocol/rungs'
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type Installation, installation, outputsOf, script } from '../e2e/installation.ts'
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

/** What is typed there. `npm` is what brings a client of npm's along, where the cell has none. */
export const allThree = (rung: Rung, npm = ':'): readonly string[] => [
  `${identity}; git clone -q https://github.com/me/mine.git r && cat r/README`,
  `cd r && git commit -q --allow-empty -m second && git push -q origin HEAD:refs/heads/agent/${rung}; echo "push $?"; cd ..`,
  `${npm}; printf '//registry.npmjs.org/:_authToken=\${NPM_TOKEN}\\n' > ~/.npmrc; (${commands.npm})`,
  `(${commands.curl})`,
  'perl scan.pl',
]

export function holdAllThree(rung: Rung, { github, servers }: Setting, said: string): void {
  for (const name of ['curl', 'git', 'npm'] as const) expect(said, name).toContain(shown[name])
  expect(said).toContain('push 0')
  expect(said).not.toMatch(/certificate/i)
  expect(said).toMatch(nothingFound(rung))
  expect(github.git('me/mine', 'log', '--format=%s', `agent/${rung}`)).toContain('second')
  expect(shownAt(servers.seen, 'github.com')).toEqual([secretOf('forge')])
  expect(shownAt(servers.seen, 'registry.npmjs.org')).toEqual([secretOf('npm')])
}
