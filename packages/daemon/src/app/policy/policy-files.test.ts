import type { Actor } from '@anchorhold/core/actors'
import { newUserId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { existsSync, lstatSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { readPolicyFile, writePolicyFile } from './policy-files.ts'
import { explainAction } from './policy-verbs.ts'
import { owner, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => parts[Symbol.dispose]())

const file = (name = 'policy.yaml') => join(parts.config.config, name)
const member: Actor = { kind: 'member', user: newUserId(randomBytes), name: 'm', door: 'test' }
const text = '# why this is so\ndefault_autonomy: restricted # for now\n'

test('writePolicyFile() writes the very text, comments and all, and it is in force at once, by name of who wrote it', () => {
  const heard = vi.fn()
  parts.policies.onChange(heard)
  const { sha256 } = readPolicyFile(parts, owner, null)
  const written = writePolicyFile(parts, owner, { text, was: sha256 })
  expect(readFileSync(file(), 'utf8')).toBe(text)
  expect(written).toMatchObject({ text, in_force: 'current', problems: [] })
  expect(parts.policies.house().settings.autonomy).toBe('restricted')
  expect(heard.mock.calls).toMatchObject([[[{ file: 'policy.yaml' }], { actor: 'owner', door: 'test' }]])
})

test('writePolicyFile() refuses what cannot be used, and changes nothing', () => {
  writePolicyFile(parts, owner, { text, was: readPolicyFile(parts, owner, null).sha256 })
  const { sha256: was } = readPolicyFile(parts, owner, null)
  for (const bad of ['default_autonomy: fulll\n', 'rules: [', 'rules:\n  - { on: tool, effect: maybe, match: {} }\n'])
    expect(() => writePolicyFile(parts, owner, { text: bad, was })).toThrow(/line \d/)
  expect(readFileSync(file(), 'utf8')).toBe(text)
  expect(parts.policies.house()).toMatchObject({ inForce: 'current', settings: { autonomy: 'restricted' } })
})

test('writePolicyFile() does not overwrite what somebody else wrote meanwhile', () => {
  const { sha256: was } = readPolicyFile(parts, owner, null)
  writeFileSync(file(), '# theirs\n')
  expect(() => writePolicyFile(parts, owner, { text, was })).toThrow(/changed since/)
  expect(readFileSync(file(), 'utf8')).toBe('# theirs\n')
})

test('writePolicyFile() makes a named one, and follows a link to the file that it names', () => {
  const { sha256: was, file: name } = readPolicyFile(parts, owner, 'ci')
  expect(name).toBe('policies/ci.yaml')
  writePolicyFile(parts, owner, { name: 'ci', text, was })
  expect(parts.policies.named('ci')).toMatchObject({ inForce: 'current', settings: { autonomy: 'restricted' } })
  writeFileSync(file('elsewhere.yaml'), '')
  symlinkSync(file('elsewhere.yaml'), file())
  writePolicyFile(parts, owner, { text, was: readPolicyFile(parts, owner, null).sha256 })
  expect(lstatSync(file()).isSymbolicLink()).toBe(true)
  expect(readFileSync(file('elsewhere.yaml'), 'utf8')).toBe(text)
})

test('a policy file is the owners’ to read and to write', () => {
  expect(() => readPolicyFile(parts, member, null)).toThrow(/may not do this/)
  const { sha256: was } = readPolicyFile(parts, owner, null)
  expect(() => writePolicyFile(parts, member, { text, was })).toThrow(/may not do this/)
  expect(existsSync(file())).toBe(false)
})

test('writePolicyFile() asks a browser for a fresh proof', () => {
  const { sha256: was } = readPolicyFile(parts, owner, null)
  expect(() => writePolicyFile(parts, { ...owner, provenAt: null }, { text, was })).toThrow(/proved who you are/)
  expect(existsSync(file())).toBe(false)
})

test('explainAction() tells what a text that is not in force would decide', () => {
  const draft = 'rules:\n  - { on: tool, match: { tool: Bash, command: git push * }, effect: deny }\n'
  const action = { tool: 'Bash', command: 'git push origin' }
  expect(explainAction(parts, owner, { action, text: draft })).toMatchObject({ effect: 'deny', at: { line: 2 } })
  expect(explainAction(parts, owner, { action }).effect).not.toBe('deny')
})
