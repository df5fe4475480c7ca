import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pushRefusal } from './push-rules.ts'
import { pushBytesMax, readPush, type RefUpdate } from './receive-pack.ts'

const [none, one, two] = ['0'.repeat(40), '1'.repeat(40), '2'.repeat(40)]
const line = (text: string) => `${(Buffer.byteLength(text) + 4).toString(16).padStart(4, '0')}${text}`
const request = (...lines: string[]) => Buffer.from(`${lines.map(line).join('')}0000PACK…`)
const capable = '\0 report-status side-band-64k agent=git/2'

test('readPush() reads what git sends: several refs, shallow lines, deletes', () => {
  const reading = readPush(
    request(
      `shallow ${one}\n`,
      `${one} ${two} refs/heads/agent/a${capable}`,
      `${none} ${two} refs/tags/v1`,
      `${one} ${none} refs/heads/x`,
    ),
  )
  expect(reading).toMatchObject({
    push: {
      commands: [
        { ref: 'refs/heads/agent/a', kind: 'update' },
        { ref: 'refs/tags/v1', kind: 'create' },
        { ref: 'refs/heads/x', kind: 'delete' },
      ],
      capabilities: ['report-status', 'side-band-64k', 'agent=git/2'],
    },
  })
})

test('readPush() waits for the end of the list, byte by byte, and reads nothing behind it', () => {
  const whole = request(`${one} ${two} refs/heads/a${capable}`)
  const end = whole.length - Buffer.byteLength('PACK…')
  for (let at = 0; at < end; at++) expect(readPush(whole.subarray(0, at))).toEqual({ more: true })
  expect(readPush(whole)).toMatchObject({ push: { length: end } })
  // What git sends to see whether it must show a credential.
  expect(readPush(Buffer.from('0000'))).toMatchObject({ push: { commands: [] } })
})

test.each([
  ['capabilities at a later command', [`${one} ${two} refs/heads/a${capable}`, `${one} ${two} refs/heads/b${capable}`]],
  ['a first command without any', [`${one} ${two} refs/heads/a`]],
  ['a ref behind a second null byte', [`${one} ${two} refs/heads/a\0x\0${one} ${two} refs/heads/main`]],
  ['two commands in one line', [`${one} ${two} refs/heads/a\n${one} ${two} refs/heads/main${capable}`]],
  ['a ref twice', [`${one} ${two} refs/heads/a${capable}`, `${two} ${one} refs/heads/a`]],
  ['a name with dots', [`${one} ${two} refs/heads/agent/../main${capable}`]],
  ['a name outside of refs', [`${one} ${two} HEAD${capable}`]],
  ['a name that ends in .lock', [`${one} ${two} refs/heads/a.lock${capable}`]],
  ['ids of two kinds', [`${one} ${'3'.repeat(64)} refs/heads/a${capable}`]],
  ['a signed push', ['push-cert\0 report-status\n', 'certificate version 0.1\n']],
  ['a shallow line behind a command', [`${one} ${two} refs/heads/a${capable}`, `shallow ${one}`]],
  ['something else', ['version 2']],
])('readPush() refuses %s', (_, lines) => {
  expect(readPush(request(...lines))).toHaveProperty('refused')
})

test('readPush() refuses lengths that there are none of, and a list without an end', () => {
  for (const text of ['0001', '0004', 'zzzz', '-001']) expect(readPush(Buffer.from(`${text}aaaa`))).toHaveProperty('refused')
  expect(readPush(Buffer.alloc(pushBytesMax, line(`shallow ${one}`)))).toHaveProperty('refused')
})

test('readPush() is total', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => Object.keys(readPush(bytes)).length === 1))
})

const rule = { branches: ['agent/*', 'fix'], tags: ['v*'], deletes: false }
test.each([
  [{ ref: 'refs/heads/agent/a/b', kind: 'update' }, true],
  [{ ref: 'refs/heads/fix', kind: 'create' }, true],
  [{ ref: 'refs/heads/main', kind: 'update' }, false],
  [{ ref: 'refs/heads/agent', kind: 'create' }, false],
  [{ ref: 'refs/heads/Agent/x', kind: 'create' }, false],
  [{ ref: 'refs/heads/agent/a', kind: 'delete' }, false],
  [{ ref: 'refs/tags/v1', kind: 'create' }, true],
  [{ ref: 'refs/tags/agent/a', kind: 'create' }, false],
  [{ ref: 'refs/notes/agent/a', kind: 'create' }, false],
  [{ ref: 'refs/for/agent/a', kind: 'create' }, false],
] satisfies [RefUpdate, boolean][])('pushRefusal() of %j', (update, allowed) => {
  expect(pushRefusal(rule, update) === null).toBe(allowed)
  if (allowed) expect(pushRefusal({ ...rule, branches: [], tags: [] }, update)).not.toBe(null)
  expect(pushRefusal({ ...rule, deletes: true }, { ref: 'refs/heads/agent/a', kind: 'delete' })).toBe(null)
})

test('readPush() is not slow with the longest list of refs, of capabilities, and of lines that are neither', () => {
  const pkt = (text: string) => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`
  const [zero, one] = ['0'.repeat(40), '1'.repeat(40)]
  const refs = Array.from({ length: 2600 }, (_, at) => pkt(`${zero} ${one} refs/heads/${at}${at === 0 ? '\0report-status' : ''}`))
  expect(readPush(Buffer.from(`${refs.join('')}0000`))).toMatchObject({ push: { commands: { length: 2600 } } })
  const shallow = pkt(`shallow ${one}`).repeat(5000)
  expect(readPush(Buffer.from(shallow))).toHaveProperty('more')
  const capabilities = pkt(`${zero} ${one} refs/heads/a\0${' '.repeat(60_000)}x`).repeat(4)
  expect(readPush(Buffer.from(capabilities))).toHaveProperty('refused')
  for (const name of [`refs/${'a/'.repeat(30_000)}`, `refs/heads/${'.'.repeat(60_000)}`, `refs/heads/${'@{'.repeat(30_000)}`])
    expect(readPush(Buffer.from(pkt(`${zero} ${one} ${name}\0x`)))).toHaveProperty('refused')
})
