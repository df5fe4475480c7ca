import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { readConfig } from './config.ts'

let state = ''
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'ah-config-'))
  mkdirSync(join(state, 'config'))
})
afterEach(() => rmSync(state, { recursive: true }))
const write = (text: string) => writeFileSync(join(state, 'config/config.yaml'), text)
const read = (...flags: string[]) => readConfig(['--state', state, ...flags], {})

test('readConfig() has a default for everything', () => {
  expect(read()).toMatchObject({
    state,
    config: join(state, 'config'),
    port: 7777,
    rung: 'bwrap',
    idleMs: 300_000,
    publicUrl: null,
  })
  write('# nothing\n')
  expect(read().port).toBe(7777)
})

test('readConfig() takes a file that says nothing for none', () => {
  const none = read()
  write('{}\n')
  expect(read()).toEqual(none)
})

test('readConfig() says what is wrong with a file, and which', () => {
  write('port: [')
  expect(() => read()).toThrow(/^Cannot read ".*config\.yaml": /)
  write('prot: 7777\n')
  expect(() => read()).toThrow(/^Cannot use ".*config\.yaml": /)
})

test('readConfig() takes an empty HOME for one that is not set', () => {
  vi.stubEnv('HOME', '')
  expect(read().home).toBe(userInfo().homedir)
  vi.unstubAllEnvs()
})

test('readConfig() keeps nothing warm on a small machine, unless the file says so', () => {
  const gib = 1024 ** 3
  const on = (memoryBytes: number) => {
    const { spareKeeper, pools } = readConfig(['--state', state], {}, memoryBytes)
    return { spareKeeper, pools }
  }
  expect([on(2 * gib), on(16 * gib)]).toEqual([
    { spareKeeper: false, pools: {} },
    { spareKeeper: true, pools: {} },
  ])
  write('spare_keeper: true\n')
  expect(on(2 * gib).spareKeeper).toBe(true)
  write('spare_keeper: false\n')
  expect(on(16 * gib).spareKeeper).toBe(false)
})

test('readConfig() lets the environment win over the file, and flags over both', () => {
  write('port: 1111\nidle_seconds: 5\n')
  expect(read()).toMatchObject({ port: 1111, idleMs: 5000 })
  expect(readConfig(['--state', state], { ANCHORHOLD_PORT: '2222' }).port).toBe(2222)
  expect(readConfig(['--state', state, '--port', '3333'], { ANCHORHOLD_PORT: '2222' }).port).toBe(3333)
  expect(readConfig([], { ANCHORHOLD_STATE: state }).port).toBe(1111)
})

test.each([
  ['an unknown key', 'prot: 1\n'],
  ['a wrong type', 'port: many\n'],
  ['a rung that is none', 'rung: castle\n'],
  ['a list', '- port\n'],
  ['what is no YAML', 'port: [\n'],
  ['a limit that limits nothing', 'limits: { memory_gib: 0 }\n'],
])('readConfig() refuses %s, and names the file', (_, text) => {
  write(text)
  expect(() => read()).toThrow(
    expect.objectContaining({ code: 'bad_request', message: expect.stringContaining('config.yaml') as string }),
  )
})

test.each(['x', '-1', '65536', '1.5', ''])('readConfig() refuses the port %j in words', (port) => {
  expect(() => read(`--port=${port}`)).toThrow(expect.objectContaining({ code: 'bad_request' }))
})

test('readConfig() refuses a state folder whose sockets would have no room', () => {
  const long = join(state, 'x'.repeat(60))
  expect(() => readConfig(['--state', long], {})).toThrow(
    expect.objectContaining({ hint: expect.stringContaining('shorter') as string }),
  )
})

test('readConfig() cannot be changed afterwards', () => {
  expect(Object.isFrozen(read())).toBe(true)
})

test('readConfig() takes the names of older policy files', () => {
  write(
    'isolation_mode: local\nnetwork_mode: proxy_only\nrepo_filter:\n  custom: { denylist: ["*.x"], allowlist: [] }\npool: { min_workers: 2, max_workers: 3, idle_timeout_secs: 9, scale_up_threshold: 0.5 }\n',
  )
  expect(read()).toMatchObject({
    rung: 'bwrap',
    repoFilter: { denylist: ['*.x'], allowlist: [] },
    pools: { bwrap: { min: 2, max: 3, idleMs: 9000, scaleUpThreshold: 0.5 } },
  })
  write('network_mode: host\n')
  expect(() => read()).toThrow("No session shares the host's network")
  write('isolation_mode: castle\n')
  expect(() => read()).toThrow('isolation_mode')
})

test('readConfig() takes mirrors by host, and refuses what is no host or no address', () => {
  write('mirrors: { Registry.npmjs.org: "10.0.0.5:4873", "deb.debian.org:80": "[::1]:8080" }\n')
  expect(read().mirrors).toEqual({ 'registry.npmjs.org:443': '10.0.0.5:4873', 'deb.debian.org:80': '[::1]:8080' })
  for (const wrong of ['{ "a b": "10.0.0.5:1" }', '{ a.org: b.org:1 }', '{ a.org: 10.0.0.5 }', '{ "a.org:0": "10.0.0.5:1" }']) {
    write(`mirrors: ${wrong}\n`)
    expect(() => read(), wrong).toThrow('mirrors')
  }
})
