import { headMessage } from '@anchorhold/core/chain'
import { GateCommand } from '@anchorhold/protocol/gate-commands'
import { createHash, createPublicKey, verify } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fileSigner } from './signing.ts'

let folder: string
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'ah-sign-'))))
afterEach(() => rmSync(folder, { recursive: true }))

const head = { session: 'house' as const, seq: 3, hash: 'a'.repeat(64), at: 1 }

test('fileSigner() makes a key that nobody else can read, and signs with the same one from then on', async () => {
  const path = join(folder, 'signing-key')
  const one = await fileSigner(path)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  const { key, fingerprint, signature } = one.sign(head)
  expect((await fileSigner(path)).sign(head)).toEqual({ key, fingerprint, signature })
  expect(fingerprint).toBe(createHash('sha256').update(Buffer.from(key, 'hex')).digest('hex'))
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(key, 'hex')])
  const publicKey = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  const holds = (message: string) => verify(null, Buffer.from(message), publicKey, Buffer.from(signature, 'hex'))
  expect(holds(headMessage(head))).toBe(true)
  expect(holds(headMessage({ ...head, seq: 2 }))).toBe(false)
})

test('fileSigner() refuses a key that others can read', async () => {
  const path = join(folder, 'signing-key')
  await fileSigner(path)
  chmodSync(path, 0o640)
  await expect(fileSigner(path)).rejects.toMatchObject({ code: 'gate_unavailable' })
})

test.each([
  ['another field', { ...head, text: 'pay me' }],
  ['a text for a hash', { ...head, hash: 'pay me' }],
  ['a name that is no log', { ...head, session: 'ses_x\n' }],
  ['no number', { ...head, seq: '3' }],
  ['a head that is a text', 'anchorhold head 1'],
])('the gate is not asked to sign %s', (_, other) => {
  expect(GateCommand.safeParse({ do: 'sign', head }).success).toBe(true)
  expect(GateCommand.safeParse({ do: 'sign', head: other }).success).toBe(false)
})
