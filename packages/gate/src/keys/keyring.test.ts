import { mkdtempSync, rmSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { fileKeys, keyPlaces, keyringKeys } from './key-places.ts'
import { sealingKeys } from './sealing-keys.ts'
import { keyring, type KeyringProgram, secretTool, securityTool } from './keyring.ts'
import { hasKeyring, type TestKeyring, testKeyring } from './test-keyring.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-keyring-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test.each([
  ['secret-tool', secretTool],
  ['security, by what it is asked alone: it was not run here', securityTool],
])('%s is never told a key by an argument', (_, program) => {
  const calls = [program.read('a/key'), program.write('a/key', 'c0ffee'), program.remove('a/key')]
  for (const { argv } of calls) expect(argv.join(' ')).not.toContain('c0ffee')
  expect(calls.map(({ input }) => input.includes('c0ffee'))).toEqual([false, true, false])
})

test('security gets its command whole on standard input, with what would end a word quoted', () => {
  expect(securityTool.write('/a "b\\c', 'c0ffee').input).toBe(
    'add-generic-password -U -s "anchorhold" -a "/a \\"b\\\\c" -w "c0ffee"\n',
  )
})

/** A keyring as a program that answers like this, whatever it is asked. */
const answering = (script: string): KeyringProgram => {
  const call = { argv: ['/bin/sh', '-c', script], input: '' } as const
  return { read: () => call, write: () => call, remove: () => call, absent: [1], remedy: 'Unlock it' }
}
const env = { PATH: '/usr/bin:/bin' }

test.each([
  [
    'is not there',
    { ...secretTool, read: () => ({ argv: ['no-such-program'] as const, input: '' }) },
    'there is no no-such-program',
  ],
  ['fails', answering('echo "Cannot autolaunch D-Bus" >&2; exit 1'), 'Cannot autolaunch D-Bus'],
  ['fails without a word', answering('exit 3'), 'ended with code 3'],
  ['holds something else', answering('echo hunter2'), 'not 32 bytes'],
])('keyring() that %s is an error with a remedy, and not a key that is missing', async (_, program, words) => {
  await expect(keyring(program, 'a', env).read('key')).rejects.toMatchObject({
    code: 'gate_unavailable',
    message: expect.stringContaining(words) as string,
    hint: expect.any(String) as string,
  })
})

test('keyring() that waits for a password is not waited for', async () => {
  const waiting = keyring(answering('exec sleep 1000'), 'a', env, 100)
  await expect(waiting.read('key')).rejects.toMatchObject({
    message: 'Cannot find the key in the keyring: it does not answer, as one does that is locked',
    hint: 'Unlock it',
  })
})

test('keyring() does not take a key for stored that is not there afterwards', async () => {
  await expect(keyring(answering('cat >/dev/null'), 'a', env).write('key', Buffer.alloc(32))).rejects.toThrow(
    'not there afterwards',
  )
})

test('keyringKeys() makes no key where one was before, and leaves alone a house that has never asked for it', async () => {
  const gone = answering('exit 1')
  expect(await keyringKeys({ folder, env: {}, program: gone }, false)).toBeNull()
  await writeFile(join(folder, 'key-in-keyring.json'), JSON.stringify({ account: folder, env: {} }))
  await expect(sealingKeys({ places: await keyPlaces({ folder, env: {}, program: gone }) })).rejects.toThrow(
    'it was put there once',
  )
  expect(await readdir(folder)).toEqual(['key-in-keyring.json'])
})

describe.skipIf(!hasKeyring)('GNOME Keyring (needs secret-tool, gnome-keyring-daemon and dbus-daemon)', () => {
  let gnome: TestKeyring
  let bus: Readonly<Record<string, string>> = {}
  beforeAll(async () => {
    gnome = await testKeyring()
    bus = gnome.env
  })
  afterAll(() => gnome[Symbol.asyncDispose]())
  const ringOf = async (more: Record<string, string> = {}) =>
    sealingKeys({ given: more.ENCRYPTION_KEY, places: await keyPlaces({ folder, env: { ...bus, ...more } }) })

  test('a key of its own is made once, found again also by a gate that was told nothing, and is in no file', async () => {
    const box = (await ringOf({ ANCHORHOLD_KEY_STORE: 'keyring' })).seal('sk-secret')
    expect(await readdir(folder)).toEqual(['key-in-keyring.json'])
    for (const told of [{ ANCHORHOLD_KEY_STORE: 'keyring' }, {}]) expect((await ringOf(told)).open(box)).toBe('sk-secret')
    expect((await sealingKeys({ places: await keyPlaces({ folder, env: {} }) })).open(box)).toBe('sk-secret')
  })

  test('keys are changed in it, into it and out of it again', async () => {
    const inFile = (await sealingKeys({ places: [fileKeys(join(folder, 'key'))] })).seal('sk-secret')
    const ring = await ringOf({ ANCHORHOLD_KEY_STORE: 'keyring' })
    const before = ring.seal(ring.open(inFile))
    await ring.begin()
    const anew = ring.seal(ring.open(before))
    expect((await ringOf()).open(anew)).toBe('sk-secret')
    await expect(ring.finish([anew, before])).rejects.toMatchObject({ code: 'conflict' })
    await ring.finish([anew])
    expect(await readdir(folder)).toEqual(['key-in-keyring.json'])
    const next = await ringOf({ ANCHORHOLD_KEY_STORE: 'keyring' })
    expect(next.open(anew)).toBe('sk-secret')
    for (const old of [inFile, before]) expect(() => next.open(old)).toThrow('another key')
    const back = await ringOf({ ANCHORHOLD_KEY_STORE: 'file' })
    await back.begin()
    const again = back.seal(back.open(anew))
    await back.finish([again])
    expect(await readdir(folder)).toEqual(['key'])
    expect((await ringOf()).open(again)).toBe('sk-secret')
    expect(await keyring(secretTool, folder, { PATH: '/usr/bin:/bin', ...bus }).read('key')).toBeNull()
  })

  test('one that is locked is an error, and no reason for another key', async () => {
    await ringOf({ ANCHORHOLD_KEY_STORE: 'keyring' })
    await gnome.lock()
    const locked = ringOf({ ANCHORHOLD_KEY_STORE: 'keyring' })
    await expect(locked).rejects.toMatchObject({ code: 'gate_unavailable', hint: expect.stringMatching(/unlock/i) as string })
    expect(await readdir(folder)).toEqual(['key-in-keyring.json'])
  })
})
