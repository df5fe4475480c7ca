import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { giveCredentials, holdsSecret, secretCore, secretOf, shownAt } from '../registries/credentials.ts'
import { type Forge, forge } from '../registries/forge.ts'
import { type Registries, serveRegistries } from '../registries/registries.ts'
import { giveTo } from './host.ts'
import { command, type Installation, installation, isRoot, makeBase, someone, start } from './installation.ts'
import { scan } from './scan.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-e2e-launched-'))
let github: Forge
let servers: Registries
let it: Installation

beforeAll(async () => {
  github = forge(scratch, secretOf('forge'))
  github.repository('me/mine', { README: 'cloned through the window\n' }, 'private')
  servers = await serveRegistries(scratch, [github])
  it = await installation({
    config: `net_ca: ${servers.caPath}\n${servers.mirrors}forges: { github.com: { push: { branches: ["agent/*"] } } }\n`,
    // What is sealed under this is under no key of the gate's folder.
    env: { ENCRYPTION_KEY: randomBytes(32).toString('hex') },
  })
  await giveCredentials(it, [
    { host: 'github.com', path: '/me/mine*', basic: 'x-access-token', secret: 'forge', env: 'GH_TOKEN' },
  ])
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  await servers[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

test('a launched cell clones and pushes to the private repository that its folder came from, and holds no secret', async () => {
  const workspace = it.workspace({ 'scan.pl': scan(secretCore) })
  const git = (...args: string[]) => execFileSync('git', ['-c', 'safe.directory=*', ...args], { cwd: workspace })
  git('init', '-q')
  git('remote', 'add', 'origin', 'git@github.com:me/mine.git')
  if (isRoot) giveTo(workspace, someone)
  const typed = [
    'git config --global user.name a; git config --global user.email a@b',
    'git clone -q git@github.com:me/mine.git r && cat r/README && cd r && git commit -q --allow-empty -m second',
    'git push -q origin HEAD:refs/heads/agent/one 2>&1; echo "exit $?"; git push -q origin HEAD:refs/heads/main 2>&1; echo "exit $?"',
    'cd ..; echo "token $GH_TOKEN"; cat "$APT_CONFIG"; grep -c proxyHost ~/.gradle/gradle.properties; grep -c "<proxy>" ~/.m2/settings.xml',
    'ls -n ~/.m2 | tail -1 | cut -d" " -f3; test -s /opt/anchorhold/trust/java.jks && echo java; perl scan.pl',
  ]
  const { out } = await it.cli(['sandbox', '-w', workspace, '--net', 'proxy', '--', 'sh', '-c', typed.join('\n')])
  expect(out).toContain('cloned through the window')
  expect(out.match(/exit \d+/g)).toEqual(['exit 0', 'exit 1'])
  expect(out).toContain('Cannot push "refs/heads/main": only agent/* may be pushed')
  expect(out).toContain('token anchorhold-placeholder-forge\nAcquire::https::CaInfo')
  expect(out).toContain('\n2\n2\n1000\njava\n')
  expect(out).toMatch(/scanned files=\d+ bytes=\d+ processes=[1-9]\d* memory=\d{6,} found=0/)
  expect(holdsSecret(out)).toBe(false)
  expect(github.git('me/mine', 'log', '--format=%s', 'agent/one')).toContain('second')
  expect(shownAt(servers.seen, 'github.com')).toContain(secretOf('forge'))
})

test('a launched cell is held to the filter and to the limits that the owner requires', async () => {
  const base = makeBase()
  const [workspace, config] = [join(base, 'w'), join(base, 's/config')]
  for (const one of [workspace, config]) mkdirSync(one, { recursive: true })
  writeFileSync(join(workspace, 'id.pem'), 'hidden by the strict one\n')
  writeFileSync(join(workspace, '.env'), 'hidden by both\n')
  if (isRoot) giveTo(workspace, someone)
  const ran = (...args: readonly string[]) =>
    start(process.execPath, [command, '--state', join(base, 's'), 'sandbox', '-w', workspace, ...args]).ended
  const read = ['--', 'sh', '-c', 'cat id.pem .env']
  try {
    writeFileSync(join(config, 'config.yaml'), 'repo_filter: none\n')
    expect((await ran(...read)).out).toBe('hidden by the strict one\nhidden by both\n')
    writeFileSync(join(config, 'policy.yaml'), 'repo_filter: strict\n')
    expect((await ran(...read)).out).toBe('')
    expect(await ran('--repo-filter', 'none', ...read)).toMatchObject({
      out: '',
      err: expect.stringContaining('the policy requires "strict"') as string,
    })
    writeFileSync(join(config, 'policy.yaml'), '')
    writeFileSync(join(config, 'config.yaml'), 'require_limits: [tmp]\n')
    expect(await ran('--rung', 'none', '--repo-filter', 'none', '--', 'echo', 'ran')).toMatchObject({
      out: '',
      err: expect.stringContaining('Limits that the policy requires are not enforced here: tmp') as string,
    })
  } finally {
    rmSync(base, { recursive: true, force: true })
  }
})
