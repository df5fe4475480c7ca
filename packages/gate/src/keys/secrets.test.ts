import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fileKeys } from './key-places.ts'
import { sealingKeys } from './sealing-keys.ts'
import { secretsUnder } from './secrets.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ah-secrets-'))
})
afterEach(() => rm(folder, { recursive: true }))

test('sealingKeys() makes a key that only its owner can read, and finds it again', async () => {
  const path = join(folder, 'sub', 'key')
  const box = (await sealingKeys({ places: [fileKeys(path)] })).seal('sk-secret')
  expect((await sealingKeys({ places: [fileKeys(path)] })).open(box)).toBe('sk-secret')
  const { mode, size } = await stat(path)
  expect({ mode: mode & 0o777, size }).toEqual({ mode: 0o600, size: 32 })
  expect(await readdir(join(folder, 'sub'))).toEqual(['key'])
})

test('sealingKeys() gives two makers the same key', async () => {
  const path = join(folder, 'key')
  const [one, two] = await Promise.all([sealingKeys({ places: [fileKeys(path)] }), sealingKeys({ places: [fileKeys(path)] })])
  expect(two.open(one.seal('x'))).toBe('x')
})

test.each([0o640, 0o604, 0o620, 0o666])('sealingKeys() refuses a key with mode %o', async (mode) => {
  const path = join(folder, 'key')
  await sealingKeys({ places: [fileKeys(path)] })
  await chmod(path, mode)
  await expect(sealingKeys({ places: [fileKeys(path)] })).rejects.toMatchObject({
    code: 'gate_unavailable',
    hint: `chmod 600 ${path}`,
  })
})

test('sealingKeys() refuses a key of another length', async () => {
  await writeFile(join(folder, 'key'), 'short', { mode: 0o600 })
  await expect(sealingKeys({ places: [fileKeys(join(folder, 'key'))] })).rejects.toThrow('32 bytes')
})

test('seal() hides the secret, and never makes the same box twice', () => {
  const secrets = secretsUnder(randomBytes(32))
  const box = secrets.seal('sk-secret')
  expect(box).toMatch(/^ah1\.[0-9a-f]{8}\.[\w-]{16}\.[\w-]+$/)
  expect(Buffer.from(box.split('.')[3]!, 'base64url').toString()).not.toContain('sk-secret')
  expect(secrets.seal('sk-secret')).not.toBe(box)
  expect(secrets.open(secrets.seal(''))).toBe('')
})

test('open() refuses a box of another key, a changed one, a cut one and what is no box', () => {
  const secrets = secretsUnder(randomBytes(32))
  const box = secrets.seal('sk-secret')
  const [version, keyId, iv, sealed] = box.split('.') as [string, string, string, string]
  const flipped = Buffer.from(sealed, 'base64url')
  flipped[0]! ^= 1
  expect(() => secretsUnder(randomBytes(32)).open(box)).toThrow('another key')
  expect(() => secrets.open([version, keyId, iv, flipped.toString('base64url')].join('.'))).toThrow('changed')
  expect(() => secrets.open([version, keyId, iv, sealed.slice(0, 10)].join('.'))).toThrow('changed')
  expect(() => secrets.open(['ah2', keyId, iv, sealed].join('.'))).toThrow('not in a form')
  expect(() => secrets.open('sk-secret')).toThrow('not in a form')
})

test('openInside() opens what was sealed for cells, and nothing that anybody calls so', () => {
  const secrets = secretsUnder(randomBytes(32))
  const [kept, inside] = [secrets.seal('sk-secret'), secrets.seal('sk-secret', 'inside')]
  expect([secrets.openInside(inside), secrets.open(inside), secrets.holds(inside)]).toEqual(['sk-secret', 'sk-secret', true])
  expect(() => secrets.openInside(kept)).toThrow('has not marked it')
  expect(() => secrets.openInside(kept.replace('ah1.', 'ah1i.'))).toThrow('changed')
})

test('sealingKeys() seals under a new key, opens what the old one sealed until it goes, and a ring that starts in between does too', async () => {
  const path = join(folder, 'key')
  const ring = await sealingKeys({ places: [fileKeys(path)] })
  const old = ring.seal('sk-secret')
  await ring.begin()
  const anew = ring.seal(ring.open(old))
  for (const one of [ring, await sealingKeys({ places: [fileKeys(path)] })])
    expect([one.open(old), one.open(anew)]).toEqual(['sk-secret', 'sk-secret'])
  // Begun twice it is still one key.
  await ring.begin()
  expect((await sealingKeys({ places: [fileKeys(path)] })).open(anew)).toBe('sk-secret')
  // Somebody has stored what was sealed before.
  await expect(ring.finish([anew, old])).rejects.toThrow('something is stored that was sealed under it')
  expect((await sealingKeys({ places: [fileKeys(path)] })).open(old)).toBe('sk-secret')
  await ring.finish([anew])
  for (const one of [ring, await sealingKeys({ places: [fileKeys(path)] })]) {
    expect(one.open(anew)).toBe('sk-secret')
    expect(() => one.open(old)).toThrow('another key')
  }
  expect(await readdir(folder)).toEqual(['key'])
})

test('sealingKeys() takes ENCRYPTION_KEY, opens what the file sealed before, and leaves no key on the disk', async () => {
  const path = join(folder, 'key')
  const old = (await sealingKeys({ places: [fileKeys(path)] })).seal('sk-secret')
  const given = randomBytes(32)
  const ring = await sealingKeys({ given: given.toString('hex'), places: [fileKeys(path)] })
  const anew = ring.seal(ring.open(old))
  await ring.begin()
  await expect(ring.finish([old])).rejects.toMatchObject({ code: 'conflict' })
  await ring.finish([anew])
  expect(await readdir(folder)).toEqual([])
  expect((await sealingKeys({ given: given.toString('base64'), places: [fileKeys(path)] })).open(anew)).toBe('sk-secret')
  await expect(sealingKeys({ given: 'correct horse battery staple', places: [fileKeys(path)] })).rejects.toMatchObject({
    hint: 'Make one: openssl rand -hex 32',
  })
  await expect(sealingKeys({ given: given.toString('hex').slice(2), places: [fileKeys(path)] })).rejects.toThrow('32 bytes')
})
