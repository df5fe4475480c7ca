import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commands, shown } from '../registries/commands.ts'
import { giveCredentials, holdsSecret, secretCore, secretOf, shownAt } from '../registries/credentials.ts'
import { debianRegistry } from '../registries/debian.ts'
import { type Forge, forge } from '../registries/forge.ts'
import { npmRegistry } from '../registries/npm.ts'
import { pypiRegistry } from '../registries/pypi.ts'
import { type Registries, serveRegistries } from '../registries/registries.ts'
import { demanding, json, tableRegistry } from '../registries/registry.ts'
import { type Installation, installation, outputsOf, script } from './installation.ts'
import { scan } from './scan.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-e2e-credentials-'))
let github: Forge
let servers: Registries
let it: Installation

beforeAll(async () => {
  github = forge(scratch, secretOf('forge'))
  github.repository('me/mine', { README: 'cloned through the window\n' }, 'private')
  servers = await serveRegistries(scratch, [
    github,
    demanding(secretOf('npm'), npmRegistry(scratch)),
    demanding(secretOf('pypi'), pypiRegistry(scratch)),
    demanding(secretOf('debian'), debianRegistry(scratch)),
    demanding(secretOf('api'), tableRegistry(['api.example.com'], new Map([['api.example.com/v1/report', json('the report')]]))),
  ])
  const presets = ['npm', 'pypi', 'debian'].map((name) => `  - { on: net, preset: ${name}, effect: allow }\n`)
  it = await installation({
    config: `net_ca: ${servers.caPath}\n${servers.mirrors}forges: { github.com: { push: { branches: ["agent/*"] } } }\n`,
    policy: `rules:\n${presets.join('')}  - { on: net, match: { host: api.example.com, method: GET }, effect: allow }\n`,
  })
  await giveCredentials(it, [
    { host: 'github.com', path: '/me/mine*', basic: 'x-access-token', secret: 'forge' },
    { host: 'registry.npmjs.org', header: 'Authorization', secret: 'npm', env: 'NPM_TOKEN' },
    { host: 'pypi.org', basic: '__token__', secret: 'pypi', env: 'PYPI_TOKEN' },
    { host: 'files.pythonhosted.org', basic: '__token__', secret: 'pypi' },
    { host: 'deb.debian.org', basic: 'reader', secret: 'debian' },
    { host: 'api.example.com', header: 'Authorization', secret: 'api', env: 'API_TOKEN' },
  ])
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  await servers[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

const typed = (...lines: readonly string[]) =>
  script({ tool_use: 'Bash', input: { command: lines.join('\n') } }, { text: 'done' })

test('servers that demand a credential see the real one from git, npm, pip, apt and curl, and the cell holds none of them', async () => {
  const push = (to: string) => `git push -q origin ${to} 2>&1; echo "exit $?"`
  const workspace = it.workspace({ 'scan.pl': scan(secretCore) })
  const prompt = typed(
    // A helper that keeps whatever git is given would keep a secret too.
    'git config --global credential.helper "store --file=/workspace/kept"; git config --global user.name a; git config --global user.email a@b',
    'git clone -q https://github.com/me/mine.git r && cat r/README && cd r && git commit -q --allow-empty -m second',
    push('HEAD:refs/heads/agent/one'),
    push('HEAD:refs/heads/main'),
    'git fetch -q origin && git branch -r; cd ..; cat kept; env',
    `printf '//registry.npmjs.org/:_authToken=\${NPM_TOKEN}\\n' > ~/.npmrc; (${commands.npm})`,
    `(PIP_INDEX_URL=https://__token__:$PYPI_TOKEN@pypi.org/simple; export PIP_INDEX_URL; ${commands.pip})`,
    `(${commands.apt})`,
    'curl -sS -H "Authorization: Bearer $API_TOKEN" https://api.example.com/v1/report',
    'curl -sS -H "Authorization: Bearer $API_TOKEN" https://registry.npmjs.org/from-npm',
    'perl scan.pl',
  )
  const { session, events } = await it.run(prompt, { repo: 'me/mine', workspace })
  const said = outputsOf(events)
  for (const text of [shown.git, shown.npm, shown.pip, shown.apt, 'the report', 'origin/agent/one']) expect(said).toContain(text)
  expect(said.match(/exit \d+/g)).toEqual(['exit 0', 'exit 1'])
  expect(said).toContain('remote: Blocked by Anchorhold: Cannot push "refs/heads/main": only agent/* may be pushed')
  expect(said).toMatch(/! \[remote rejected\] HEAD -> main \(only agent\/\* may be pushed\)/)
  expect(said).toContain('"anchorhold-placeholder-api\\" stands for a secret that is not for this endpoint')
  expect(said).not.toMatch(/certificate/i)
  expect(said).toMatch(/scanned files=\d{2,} bytes=\d{4,} processes=[1-9]\d* memory=\d{6,} found=0 ?$/m)
  expect(github.git('me/mine', 'log', '--format=%s', 'agent/one')).toContain('second')
  const hosts = { 'github.com': 'forge', 'registry.npmjs.org': 'npm', 'pypi.org': 'pypi', 'files.pythonhosted.org': 'pypi' }
  for (const [host, name] of Object.entries({ ...hosts, 'deb.debian.org': 'debian', 'api.example.com': 'api' }))
    expect(shownAt(servers.seen, host), host).toEqual([secretOf(name)])
  expect(holdsSecret(JSON.stringify(await it.log(session.id)))).toBe(false)
  const { out } = await it.cli(['net', session.id])
  for (const name of ['forge', 'npm', 'pypi', 'debian', 'api']) expect(out).toContain(`${name} ×`)
}, 240_000)
