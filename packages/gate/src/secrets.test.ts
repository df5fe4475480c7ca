import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fileSecrets, secretsUnder } from './secrets.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ah-secrets-'))
})
afterEach(() => rm(folder, { recursive: true }))

test('fileSecrets() makes a key that only its owner can read, and finds it again', async () => {
  const path = join(folder, 'sub', 'key')
  const box = (await fileSecrets(path)).seal('sk-secret')
  expect((await fileSecrets(path)).open(box)).toBe('sk-secret')
  const { mode, size } = await stat(path)
  expect({ mode: mode & 0o777, size }).toEqual({ mode: 0o600, size: 32 })
  expect(await readdir(join(folder, 'sub'))).toEqual(['key'])
})

test('fileSecrets() gives two makers the same key', async () => {
  const path = join(folder, 'key')
  const [one, two] = await Promise.all([fileSecrets(path), fileSecrets(path)])
  expect(two.open(one.seal('x'))).toBe('x')
})

test.each([0o640, 0o604, 0o620, 0o666])('fileSecrets() refuses a key with mode %o', async (mode) => {
  const path = join(folder, 'key')
  await fileSecrets(path)
  await chmod(path, mode)
  await expect(fileSecrets(path)).rejects.toMatchObject({ code: 'gate_unavailable', hint: `chmod 600 ${path}` })
})

test('fileSecrets() refuses a key of another length', async () => {
  await writeFile(join(folder, 'key'), 'short', { mode: 0o600 })
  await expect(fileSecrets(join(folder, 'key'))).rejects.toThrow('32 bytes')
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
