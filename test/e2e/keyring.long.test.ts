import { hasKeyring, testKeyring } from '@anchorhold/gate/keys/test-keyring'
import { execFileSync } from 'node:child_process'
import { accessSync, constants, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { giveTo } from './host.ts'
import { command, isRoot, makeBase, type Ran, start } from './installation.ts'
import { upstream } from './upstream.ts'

/** A keyring is a person's: root becomes somebody else for this. */
const person = isRoot ? { uid: 65_534, gid: 65_534 } : undefined
const asPerson = isRoot ? ['/usr/bin/setpriv', `--reuid=${person!.uid}`, `--regid=${person!.gid}`, '--clear-groups', '--'] : []

/** A house of that person's whose key is to be in the keyring. */
function house(): {
  readonly state: string
  readonly keys: string
  cli(env: Readonly<Record<string, string>>, args: readonly string[], input?: string): Promise<Ran>
} & Disposable {
  const base = makeBase()
  const state = join(base, 's')
  mkdirSync(join(state, 'config'), { recursive: true })
  writeFileSync(join(state, 'config/config.yaml'), 'key_store: keyring\nspare_keeper: false\n')
  if (person !== undefined) giveTo(base, person)
  return {
    state,
    keys: join(state, 'gate'),
    cli(env, args, input) {
      const [file = '', ...rest] = [...asPerson, process.execPath, command, '--state', state, ...args]
      return start(file, rest, input, env).ended
    },
    [Symbol.dispose]: () => rmSync(base, { recursive: true, force: true }),
  }
}

/** Whether that person may read this clone. */
function canReach(): boolean {
  if (person === undefined) return true
  try {
    accessSync(command, constants.R_OK)
    execFileSync('test', ['-r', command], person)
    return true
  } catch {
    return false
  }
}
const lacks = !hasKeyring
  ? 'no secret-tool, gnome-keyring-daemon or dbus-daemon'
  : canReach()
    ? null
    : 'the clone is hidden from others'

test('with key_store: keyring a secret outlives the daemon and the gate, and its key is in no file', async ({ skip }) => {
  if (lacks !== null) skip(lacks)
  await using ring = await testKeyring(person)
  await using model = await upstream(() => ({ text: 'ok' }))
  using it = house()
  const cli = (args: readonly string[], input?: string) => it.cli(ring.env, args, input)
  expect(await cli(['up', '--detach', '--port', '0'])).toMatchObject({ code: 0 })
  try {
    const add = ['provider', 'add', 'local', '--url', model.url, '--model', 'fake-1', '--key']
    expect(await cli(add, 'sk-from-a-person\n')).toMatchObject({ code: 0 })
    const calls = model.calls.length
    expect(readdirSync(it.keys)).toContain('key-in-keyring.json')
    expect((await cli(['status'])).out).toContain('key: keyring')
    expect(await cli(['down', '--all'])).toMatchObject({ code: 0 })
    expect(await cli(['up', '--detach', '--port', '0'])).toMatchObject({ code: 0 })
    expect(await cli(['provider', 'test', 'local'])).toMatchObject({ code: 0 })
    expect(model.calls.length).toBeGreaterThan(calls)
    expect(JSON.stringify(model.calls.at(-1)?.headers)).toContain('sk-from-a-person')
    expect(readdirSync(it.keys)).not.toContain('key')
    const key = execFileSync('/usr/bin/secret-tool', ['search', '--all', 'service', 'anchorhold'], {
      ...person,
      env: { ...ring.env, PATH: '/usr/bin:/bin' },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const [, hex = ''] = /^secret = ([0-9a-f]{64})$/m.exec(key) ?? []
    expect(hex).not.toBe('')
    for (const path of readdirSync(it.state, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())) {
      const bytes = readFileSync(join(path.parentPath, path.name))
      expect(bytes.includes(hex) || bytes.includes(Buffer.from(hex, 'hex')), path.name).toBe(false)
    }
  } finally {
    await cli(['down', '--all'])
  }
})

test('a keyring that is not there is said with what to do, and no key is put into a file in its place', async ({ skip }) => {
  if (lacks !== null) skip(lacks)
  using it = house()
  const nowhere = { HOME: it.state, DBUS_SESSION_BUS_ADDRESS: `unix:path=${it.state}/no-bus` }
  try {
    await it.cli(nowhere, ['up', '--detach', '--port', '0'])
    const add = ['provider', 'add', 'local', '--url', 'http://127.0.0.1:9', '--model', 'm', '--key', '--no-test']
    const added = await it.cli(nowhere, add, 'sk-x\n')
    expect(added.code).not.toBe(0)
    expect(added.err).toMatch(/Cannot find the key in the keyring: .*\n.*log in to a desktop whose keyring is unlocked/)
    expect(readdirSync(it.keys).filter((name) => name.startsWith('key'))).toEqual([])
  } finally {
    await it.cli(nowhere, ['down', '--all'])
  }
})
