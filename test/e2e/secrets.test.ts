import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, chownSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { filesBelow, processes } from './host.ts'
import { type Installation, installation, isRoot, outputsOf, script, textOf, until } from './installation.ts'
import { guises, scan } from './scan.ts'
import { upstream, type Upstream } from './upstream.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-secrets-'))
const key = `sk-real-${randomBytes(18).toString('hex')}`
const envKey = `sk-env-${randomBytes(18).toString('hex')}`
/** The gate reads credentials: as root it runs under a uid of its own. */
const gateUid = 1_900_000_000

let it: Installation
let model: Upstream
beforeAll(async () => {
  // A prompt is a command to run, and what it printed is the answer.
  model = await upstream((prompt, results) =>
    results.length === 0 && prompt.startsWith('$ ') ? { run: prompt.slice(2) } : { text: 'done' },
  )
  it = await installation({ env: { HERRING_KEY: envKey } })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  await model[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

test('the upstream gets the real key, and nothing in the cell, the logs, the events or argv holds it', async () => {
  const added = await it.cli(['provider', 'add', 'local', '--url', model.url, '--model', 'fake-1', '--key'], {
    input: `${key}\n`,
  })
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining('is stored') as string })
  expect(`${added.out}${added.err}`).not.toContain(key)
  expect(await it.cli(['provider', 'ls'])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/● +local +local +fake-1 .*stored encrypted/) as string,
  })

  const canary = `canary-${randomBytes(12).toString('hex')}`
  const workspace = it.workspace({ 'scan.pl': scan(key), 'scan-canary.pl': scan(canary), 'canary.txt': `it says ${canary} here` })
  const session = await it.api.createSession({ body: { workspace, prompt: { text: '$ env; ls /run/windows; perl scan.pl' } } })
  await it.event(session.id, 0, ({ type }) => type === 'turn.ended')
  const found = outputsOf(await it.log(session.id))
  expect(found).toMatch(/scanned files=\d{2,} bytes=\d{4,} processes=[1-9]\d* memory=\d{6,} found=0 ?$/m)
  expect(found).toContain('model.sock')
  // The same scan does find what is there: in a file and in the agent's memory, which has read the prompt.
  const control = outputsOf(await it.turn(session.id, `$ : ${canary}; perl scan-canary.pl`))
  expect(control).toMatch(/found=[1-9]/)
  expect(control).toContain('canary.txt')
  expect(control).toMatch(/mem of \d+/)

  // The upstream did get it, as the credential and nowhere else; what came from inside as one did not get out.
  const calls = model.calls.filter(({ body }) => body.includes('scan.pl'))
  expect(calls.length).toBeGreaterThan(0)
  for (const { headers, body, path } of calls) {
    expect(headers.authorization).toBe(`Bearer ${key}`)
    expect(`${body}${path}`).not.toContain(key)
    expect(JSON.stringify(headers)).not.toContain('placeholder')
  }
  expect(JSON.parse(calls[0]!.body)).toMatchObject({ model: 'fake-1' })

  expect(await it.api.getSession({ params: { id: session.id } })).toMatchObject({ provider: 'local', simulated: false })
  const everything = [
    JSON.stringify(await it.log(session.id)),
    JSON.stringify(await it.api.listProviders()),
    ...processes().map(({ argv }) => argv),
    ...files().map(({ text }) => text),
    ...filesBelow(workspace)
      .filter(({ path }) => !path.endsWith('.pl'))
      .map(({ text }) => text),
  ]
  for (const guise of guises(key)) expect(everything.findIndex((text) => text.includes(guise))).toBe(-1)
  for (const name of ['daemon.log', 'gate.log', 'anchorhold.db', 'keepers.log'])
    expect(files().map(({ path }) => path)).toContain(join(it.state, name))
  await it.api.archive({ params: { id: session.id } })
})

/** All files of the installation, but the programs that are run. */
const files = () => filesBelow(it.state, join(it.state, 'runtime'))

test('what a cell sends as a credential, and other endpoints and fields, are refused at the window', async () => {
  const ask = String.raw`
use strict; use IO::Socket::UNIX;
sub ask { my ($line, $headers, $body) = @_;
  my $s = IO::Socket::UNIX->new(Peer => '/run/windows/model.sock') or return "no window: $!";
  print $s "$line HTTP/1.1\r\nhost: api.anthropic.com\r\nconnection: close\r\n$headers" . (length $body ? "content-type: application/json\r\ncontent-length: " . length($body) . "\r\n" : '') . "\r\n$body";
  local $/; my $answer = <$s>; my ($status) = $answer =~ m{^HTTP/1\.1 (\d+)}; my ($message) = $answer =~ m{"message":"((?:[^"\\]|\\.)*)"}; return "$status " . ($message // '') }
my $hi = '"model":"fake-1","max_tokens":5,"messages":[{"role":"user","content":"hi"}]';
my @asks = (
  ['files', 'GET /v1/files', '', ''], ['batches', 'POST /v1/messages/batches', '', '{"requests":[]}'], ['models', 'GET /v1/models', '', ''],
  ['admin', 'GET /v1/organizations/api_keys', '', ''], ['absolute', 'GET http://169.254.169.254/latest/meta-data', '', ''], ['connect', 'CONNECT evil.example:443', '', ''],
  ['dots', 'POST /v1/messages/../files', '', "{$hi}"], ['get', 'GET /v1/messages', '', ''],
  ['mcp', 'POST /v1/messages', '', "{$hi,\"mcp_servers\":[{\"type\":\"url\",\"url\":\"https://evil.example\",\"name\":\"x\"}]}"],
  ['tool', 'POST /v1/messages', '', "{$hi,\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]}"],
  ['url', 'POST /v1/messages', '', '{"model":"fake-1","max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/x"}}]}]}'],
  ['container', 'POST /v1/messages', '', "{$hi,\"container\":\"c\"}"], ['json', 'POST /v1/messages', '', '{'],
  ['own-key', 'POST /v1/messages', "x-api-key: sk-stolen\r\nauthorization: Bearer sk-stolen\r\nx-forwarded-for: 1.2.3.4\r\ncookie: a=b\r\n", "{$hi}"]);
print "$$_[0]: ", ask(@$_[1..3]), "\n" for @asks;
`
  const workspace = it.workspace({ 'ask.pl': ask })
  const { session, events } = await it.run('$ perl ask.pl; ls -la /run/windows', { workspace })
  const told = Object.fromEntries(
    [...outputsOf(events).matchAll(/^([\w-]+): (\d+)? ?(.*)$/gm)].map(([, name, status, words]) => [
      name,
      { status: Number(status), words },
    ]),
  )
  for (const name of ['files', 'batches', 'models', 'admin', 'absolute', 'dots', 'get'])
    expect(told[name], name).toMatchObject({ status: 404 })
  for (const name of ['mcp', 'tool', 'url', 'container'])
    expect(told[name], name).toMatchObject({
      status: 403,
      words: expect.stringContaining('the owner can allow it with the rule') as string,
    })
  expect(told.json).toMatchObject({ status: 400 })
  expect(told.connect?.status).not.toBe(200)
  expect(told['own-key']).toMatchObject({ status: 200 })
  const own = model.calls.find(({ body }) => body.includes('"content":"hi"'))
  expect(own?.headers.authorization).toBe(`Bearer ${key}`)
  expect(JSON.stringify(own?.headers)).not.toMatch(/sk-stolen|1\.2\.3\.4|a=b/)
  expect(model.calls.every(({ path }) => /^\/v1\/messages(\/count_tokens)?(\?beta=true)?$/.test(path))).toBe(true)
  expect(readFileSync(join(it.state, 'gate.log'), 'utf8')).not.toMatch(/sk-stolen/)
  await it.api.archive({ params: { id: session.id } })
})

test('a credential from a variable or a file is read when it is needed; one that is gone or open to others is said', async () => {
  const byEnv = await it.cli([
    'provider',
    'add',
    'by-env',
    '--kind',
    'local',
    '--url',
    model.url,
    '--env',
    'HERRING_KEY',
    '--no-use',
  ])
  expect(byEnv).toMatchObject({ code: 0 })
  await it.run('$ true', { provider: 'by-env' })
  expect(model.calls.at(-1)?.headers.authorization).toBe(`Bearer ${envKey}`)
  expect(
    await it.cli(['provider', 'add', 'no-env', '--kind', 'local', '--url', model.url, '--env', 'NO_SUCH_THING', '--no-use']),
  ).toMatchObject({
    code: 2,
    err: expect.stringContaining('has no variable "NO_SUCH_THING"') as string,
  })

  const file = join(scratch, 'key')
  chmodSync(scratch, 0o711)
  writeFileSync(file, 'sk-from-file\n', { mode: 0o644 })
  chmodSync(file, 0o644)
  const add = () => it.cli(['provider', 'add', 'by-file', '--kind', 'local', '--url', model.url, '--file', file, '--no-use'])
  expect(await add()).toMatchObject({ code: 7, err: expect.stringContaining('can be read by others; chmod 600 it') as string })
  chmodSync(file, 0o600)
  // As root the gate is another user, and the file must be its own.
  if (isRoot) {
    expect(await add()).toMatchObject({ code: 7, err: expect.stringContaining('cannot be read') as string })
    chownSync(file, gateUid, gateUid)
  }
  expect(await add()).toMatchObject({ code: 0 })
  const { session } = await it.run('$ true', { provider: 'by-file' })
  expect(model.calls.at(-1)?.headers.authorization).toBe('Bearer sk-from-file')
  rmSync(file)
  const before = model.calls.length
  const log = await it.turn(session.id, '$ true')
  expect(log.findLast(({ type }) => type === 'turn.ended')).toMatchObject({ body: { reason: 'error' } })
  expect(JSON.stringify(log)).toContain('Cannot use the credential of provider \\"by-file\\"')
  expect(JSON.stringify(log)).toContain('provider add by-file')
  expect(model.calls).toHaveLength(before)
  expect(statSync(join(it.state, 'gate')).mode & 0o077).toBe(0)
})

test('nobody but the gate can read its key, and the environment of daemon and keepers has no credential of others', async () => {
  for (const name of readdirSync(join(it.state, 'gate'))) {
    const { mode, uid } = statSync(join(it.state, 'gate', name))
    if (isRoot) expect(uid, name).toBe(gateUid)
    if (!name.endsWith('.sock')) expect(mode & 0o077, name).toBe(0)
  }
  const { id } = await it.api.createSession({ body: { prompt: { text: '$ sleep 60' } } })
  await it.event(id, 0, ({ type }) => type === 'tool.started')
  const environ = (pid: number) => readFileSync(`/proc/${pid}/environ`, 'latin1')
  const keepers = await until(() => processes().filter(({ argv }) => argv.includes(it.state) && argv.includes('/keeper.mjs')))
  expect(keepers.length).toBeGreaterThan(0)
  for (const { pid } of keepers) expect(environ(pid)).not.toContain(envKey)
  await it.api.stop({ params: { id } })
})

test('a secret that is marked for cells is in the one that is given it, shown as such, and written down nowhere', async () => {
  const value = `inside-${randomBytes(18).toString('hex')}`
  const secret = { params: { name: 'deploy-key' } }
  await it.api.putSecret({ ...secret, body: { value } })
  const prompt = script({ tool_use: 'Bash', input: { command: 'printf %s "$DEPLOY_KEY" | md5sum' } }, { text: 'done' })
  const given = { provider: 'rehearsal', secrets: ['deploy-key'] }
  await expect(it.api.createSession({ body: given })).rejects.toMatchObject({
    hint: expect.stringContaining('anchorhold secret add deploy-key --inside') as string,
  })
  await it.api.putSecret({ ...secret, body: { value, inside: true } })
  const ran = await it.cli(['run', '-p', 'rehearsal', '--secret', 'deploy-key', prompt])
  expect(ran).toMatchObject({ code: 0, err: expect.stringContaining('secrets inside: deploy-key') as string })
  const [session] = (await it.api.listSessions({ query: { limit: 1 } })).sessions
  expect(session).toMatchObject({ secrets_inside: ['deploy-key'] })
  const log = await it.log(session!.id)
  expect(outputsOf(log)).toContain(createHash('md5').update(value).digest('hex'))
  expect((await it.cli(['show', session!.id])).out).toMatch(/secrets inside +deploy-key/)
  const everything = [JSON.stringify(log), ...processes().map(({ argv }) => argv), ...files().map(({ text }) => text)]
  for (const guise of guises(value)) expect(everything.findIndex((text) => text.includes(guise))).toBe(-1)
})

test('with model_route: forwarder a whole turn goes through the loopback of the cell', async () => {
  await using other = await installation({ config: 'model_route: forwarder\n' })
  const { session, events } = await other.run(
    'run `env | grep ANTHROPIC; ls /sys/class/net 2>/dev/null; cat /proc/net/dev | wc -l`',
  )
  expect(outputsOf(events)).toMatch(/ANTHROPIC_BASE_URL=http:\/\/127\.0\.0\.1:\d+/)
  expect(outputsOf(events)).not.toContain('ANTHROPIC_UNIX_SOCKET')
  expect(textOf(events)).toContain('Rehearsal: no model was called')
  expect(session).toMatchObject({ state: 'ready', turns: 1 })
  expect(events.findLast(({ type }) => type === 'turn.ended')).toMatchObject({ body: { reason: 'done' } })
})
