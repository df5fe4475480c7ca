import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commands, hasPip, shown } from '../registries/commands.ts'
import { debianRegistry } from '../registries/debian.ts'
import { type Forge, forge } from '../registries/forge.ts'
import { npmRegistry } from '../registries/npm.ts'
import { pypiRegistry } from '../registries/pypi.ts'
import { type Registries, serveRegistries } from '../registries/registries.ts'
import { giveTo } from './host.ts'
import { type Installation, installation, isRoot, outputsOf, script, someone } from './installation.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-e2e-registries-'))
let github: Forge
let servers: Registries
let it: Installation

beforeAll(async () => {
  github = forge(scratch, null)
  for (const name of ['somebody/public', 'me/mine', 'me/other'])
    github.repository(name, { README: 'cloned through the window\n' })
  const pypi = hasPip ? [pypiRegistry(scratch)] : []
  servers = await serveRegistries(scratch, [github, npmRegistry(scratch), ...pypi, debianRegistry(scratch)])
  const rules = ['git', 'npm', 'pypi', 'debian'].map((name) => `  - { on: net, preset: ${name}, effect: allow }\n`)
  it = await installation({
    config: `net_ca: ${servers.caPath}\n${servers.mirrors}forges: { github.com: { push: { branches: ["agent/*"] } } }\n`,
    policy: `rules:\n${rules.join('')}  - { on: net, match: { host: github.com }, effect: allow }\n`,
  })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  await servers[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

const typed = (command: string) => script({ tool_use: 'Bash', input: { command } }, { text: 'done' })

test('curl, git, npm, pip and apt find their registries by their real names, with nothing set up', async () => {
  const names = ['curl', 'git', 'npm', ...(hasPip ? ['pip' as const] : []), 'apt'] as const
  const { session, events } = await it.run(typed(names.map((name) => `(${commands[name]})`).join('; ')))
  const said = outputsOf(events)
  for (const name of names) expect(said, name).toContain(shown[name])
  expect(said).not.toMatch(/certificate/i)
  const { out } = await it.cli(['net', session.id, '--json'])
  const { hosts } = JSON.parse(out) as { hosts: { host: string; blocked: number }[] }
  expect(hosts.map(({ host }) => host).toSorted()).toEqual([
    'deb.debian.org',
    ...(hasPip ? ['files.pythonhosted.org'] : []),
    'github.com',
    ...(hasPip ? ['pypi.org'] : []),
    'registry.npmjs.org',
  ])
  expect(hosts.every(({ blocked }) => blocked === 0)).toBe(true)
})

test('what a preset allows is no place to publish to', async () => {
  const { events } = await it.run(
    typed('curl -sS -m 3 -X PUT -d x https://registry.npmjs.org/from-npm; echo; curl -sS -m 3 -d x https://pypi.org/legacy/'),
  )
  expect(servers.seen.filter(({ method }) => method === 'PUT')).toEqual([])
  expect(outputsOf(events)).not.toContain('npm brought')
  const { out } = await it.cli(['policy', 'explain', '--net', 'GET', 'https://pypi.org/simple/'])
  expect(out).toContain('by preset pypi')
})

test('a push goes to the repository of the session, and only to the branches that may be pushed', async () => {
  const push = (to: string) => `git push -q origin ${to} 2>&1; echo "exit $?"`
  const commands = [
    'git clone -q git@github.com:me/mine.git r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m second',
    push('HEAD:refs/heads/agent/one'),
    push('HEAD:main'),
    push('HEAD:refs/heads/agent/two HEAD:refs/heads/main'),
    push('HEAD:refs/tags/v1'),
    push(':refs/heads/agent/one'),
    'git remote set-url origin https://github.com/me/other.git',
    push('HEAD:refs/heads/agent/one'),
  ]
  const { events, session } = await it.run(typed(commands.join('\n')), { repo: 'me/mine' })
  const said = outputsOf(events)
  expect(github.git('me/mine', 'for-each-ref', '--format=%(refname)').trim().split('\n')).toEqual([
    'refs/heads/agent/one',
    'refs/heads/main',
  ])
  expect(github.git('me/mine', 'log', '--format=%s', 'agent/one')).toContain('second')
  expect(github.git('me/mine', 'log', '--format=%s', 'main').trim()).toBe('first')
  expect(github.git('me/other', 'for-each-ref', '--format=%(refname)').trim()).toBe('refs/heads/main')
  expect(said.match(/exit \d+/g)).toEqual(['exit 0', 'exit 1', 'exit 1', 'exit 1', 'exit 1', 'exit 128'])
  expect(said).toContain('remote: Blocked by Anchorhold: Cannot push "refs/heads/main": only agent/* may be pushed')
  expect(said).toMatch(/! \[remote rejected\] HEAD -> main \(only agent\/\* may be pushed\)/)
  expect(said).toMatch(/! \[remote rejected\] HEAD -> agent\/two \(another ref of this push is refused\)/)
  expect(said).toContain('no rule lets anything be deleted')
  expect(said).toContain('remote error: Blocked by Anchorhold: This session pushes to me/mine only')
  expect((await it.cli(['net', session.id])).out).toContain('blocked github.com')
})

test('the repository of a session is the one that its folder came from before a cell was in it', async () => {
  const folder = it.workspace()
  const git = (...args: string[]) => execFileSync('git', ['-c', 'safe.directory=*', ...args], { cwd: folder })
  git('init', '-q')
  git('remote', 'add', 'origin', 'git@github.com:me/mine.git')
  if (isRoot) giveTo(folder, someone)
  const pushed =
    'git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git push -q --force https://github.com/me/NAME HEAD:refs/heads/agent/NUMBER 2>&1'
  const change = 'git config --global --add safe.directory "*"; git remote set-url origin https://github.com/me/other.git; '
  const { events: before } = await it.run(typed(change + pushed.replace('NAME', 'mine').replace('NUMBER', 'first')), {
    workspace: folder,
  })
  expect(outputsOf(before)).not.toContain('rejected')
  expect(github.git('me/mine', 'for-each-ref', '--format=%(refname)'), outputsOf(before)).toContain('refs/heads/agent/first')
  const { events } = await it.run(typed(pushed.replace('NAME', 'other').replace('NUMBER', 'second')), { workspace: folder })
  expect(outputsOf(events)).toContain('This session pushes to me/mine only')
  expect(github.git('me/other', 'for-each-ref', '--format=%(refname)').trim()).toBe('refs/heads/main')
})
