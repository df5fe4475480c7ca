import { runs } from '@anchorhold/protocol/test-runs'
import type { Head, LogName } from '@anchorhold/protocol/heads'
import type { SessionId } from '@anchorhold/protocol/ids'
import fc from 'fast-check'
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { expect, test } from 'vitest'
import {
  firstDigest,
  firstHash,
  footerLine,
  hashedLine,
  headerLine,
  headMessage,
  lineOf,
  nextDigest,
  nextHash,
  type Sha256,
} from './chain.ts'
import { exportVerifier, type Verdict, type VerifyCrypto } from './verify-export.ts'

const sha256: Sha256 = (text) => createHash('sha256').update(text).digest('hex')
const crypto: VerifyCrypto = {
  sha256(...parts) {
    const hash = createHash('sha256')
    for (const part of parts) hash.update(part)
    return hash.digest('hex')
  },
  verify(key, message, signature) {
    const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), key])
    return verify(null, Buffer.from(message), createPublicKey({ key: der, format: 'der', type: 'spki' }), signature)
  },
}

const ours = generateKeyPairSync('ed25519').privateKey
const theirs = generateKeyPairSync('ed25519').privateKey
const session = 'ses_0123456789abcdef' as SessionId
const other = 'ses_fedcba9876543210' as SessionId

function signed(head: Head, key: KeyObject) {
  const raw = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32)
  const fingerprint = createHash('sha256').update(raw).digest('hex')
  return { key: raw.toString('hex'), fingerprint, signature: sign(null, Buffer.from(headMessage(head)), key).toString('hex') }
}
const fingerprintOf = (key: KeyObject) => signed({ session, seq: 0, hash: '0'.repeat(64), at: 0 }, key).fingerprint

/** A log as it is exported, event by event from these bodies. */
function log(name: LogName, bodies: readonly object[], { key = ours, type = 'notice' } = {}): string[] {
  let hash = firstHash(sha256, name)
  const lines = bodies.map((body, index) => {
    const line = lineOf({ seq: index + 1, at: 1000 + index, source: 'daemon', type, body: JSON.stringify(body) })
    hash = nextHash(sha256, hash, line)
    return hashedLine(line, hash)
  })
  const head: Head = { session: name, seq: bodies.length, hash, at: 5000 }
  return [headerLine(name), ...lines, footerLine(head, signed(head, key))]
}

function judge(bytes: Uint8Array, key?: string): Verdict {
  const verifier = exportVerifier(crypto, { key })
  let from = 0
  for (let to = bytes.indexOf(10); to !== -1; to = bytes.indexOf(10, from)) {
    verifier.line(bytes.subarray(from, to))
    from = to + 1
  }
  if (from < bytes.length) verifier.line(bytes.subarray(from))
  return verifier.end({ whole: from === bytes.length })
}
const of = (lines: readonly string[]) => Buffer.from(lines.map((line) => `${line}\n`).join(''))
const found = (lines: readonly string[], key?: string) =>
  judge(of(lines), key).problems.map(({ line, kind }) => `${line} ${kind}`)

const five = log(session, [{ n: 'one' }, { n: 'two' }, { n: 'three' }, { n: 'four' }, { n: 'five' }])
/** Lines by their number in the file, as an editor shows it. */
const put = (line: number, text: string) => five.with(line - 1, text)

test('exportVerifier() finds an export intact, and says who signed it', () => {
  expect(judge(of(five))).toEqual({
    intact: true,
    logs: 1,
    events: 5,
    at: 5000,
    keys: [fingerprintOf(ours)],
    problems: [],
  })
  expect(judge(of(log(session, []))).intact).toBe(true)
  expect(judge(of(five), fingerprintOf(ours)).intact).toBe(true)
})

test.each<[string, readonly string[], readonly string[]]>([
  ['a changed event', put(4, five[3]!.replace('three', 'tree')), ['4 changed']],
  ['a changed time', put(4, five[3]!.replace('"at":1002', '"at":1003')), ['4 changed']],
  [
    'a changed hash',
    put(
      4,
      five[3]!.replace(/.(?="}$)/, (last) => (last === '0' ? '1' : '0')),
    ),
    ['4 changed'],
  ],
  ['the last event changed', put(6, five[5]!.replace('five', 'six')), ['6 changed']],
  ['a line that is none', put(4, 'x'), ['4 changed']],
  ['a removed event', five.toSpliced(3, 1), ['4 removed']],
  ['removed events', five.toSpliced(2, 2), ['3 removed']],
  ['the first event removed', five.toSpliced(1, 1), ['2 removed']],
  ['the tail removed', five.toSpliced(4, 2), ['5 truncated']],
  ['the head removed', five.toSpliced(6, 1), ['7 truncated']],
  ['a repeated event', five.toSpliced(4, 0, five[3]!), ['5 added']],
  ['a forged event before the true one', five.toSpliced(3, 0, five[3]!.replace('three', 'tree')), ['4 added']],
  ['a forged event after the true one', five.toSpliced(4, 0, five[3]!.replace('three', 'tree')), ['5 added']],
  ['two events in the wrong order', [...five.slice(0, 2), five[3]!, five[2]!, ...five.slice(4)], ['4 reordered']],
  ['a header of another log', five.with(0, headerLine(other)), ['2 changed', '7 changed']],
  [
    'a header with more in it',
    five.with(0, five[0]!.replace('}', ',"x":1}')),
    ['1 changed', ...[2, 3, 4, 5, 6, 7].map((n) => `${n} changed`)],
  ],
  ['a head written otherwise', five.with(6, five[6]!.replace('{"head"', '{ "head"')), ['7 changed', '8 truncated']],
  ['nothing', [], ['1 truncated']],
])('exportVerifier() finds %s', (_, lines, expected) => {
  expect(found(lines)).toEqual(expected)
})

test('exportVerifier() tells a log that was made anew from the one that was signed', () => {
  const anew = log(session, [{ n: 'one' }, { n: 'two' }, { n: 'tree' }, { n: 'four' }, { n: 'five' }], { key: theirs })
  // The chain holds by itself; the old signature does not fit it, and a new one is another's.
  expect(found([...anew.slice(0, -1), five.at(-1)!])).toEqual(['7 rewritten'])
  expect(found(anew)).toEqual([])
  expect(found(anew, fingerprintOf(ours))).toEqual(['7 foreign'])
  const shorter = log(session, [{ n: 'one' }], { key: theirs })
  const { key, fingerprint } = JSON.parse(five.at(-1)!) as { key: string; fingerprint: string }
  const forged = shorter.with(
    shorter.length - 1,
    JSON.stringify({ ...(JSON.parse(shorter.at(-1)!) as object), key, fingerprint }),
  )
  expect(found(forged)).toEqual(['3 forged'])
})

function whole(): { readonly parts: readonly string[][]; readonly lines: string[] } {
  const logs = [five, log(other, [{ n: 1 }])]
  const digest = logs.reduce((sum, one) => nextDigest(sha256, sum, one.at(-1)!), firstDigest)
  const house = log('house', [{ logs: 2, digest, actor: 'owner', door: 'http' }], { type: 'exported' })
  return { parts: [...logs, house], lines: [...logs.flat(), ...house] }
}

test('exportVerifier() finds what is missing from an export of everything', () => {
  const { parts, lines } = whole()
  const [one, two, house] = parts as [string[], string[], string[]]
  expect(judge(of(lines))).toMatchObject({ intact: true, logs: 3, events: 7 })
  expect(found([...two, ...house])).toEqual(['6 removed'])
  expect(found([...two, ...one, ...house])).toEqual(['13 removed'])
  expect(found([...house])).toEqual(['3 removed'])
  expect(found([...one, ...two])).toEqual(['11 truncated'])
  expect(found([...lines, ...two])).toEqual(['14 added'])
  expect(found([...lines.slice(0, 3), ...lines.slice(7)])).toEqual(['4 truncated', '9 removed'])
})

test('a line is judged by its bytes, not by what they decode to', () => {
  // One byte away from U+FFFD there is a broken sequence that decodes to U+FFFD as well.
  const bytes = of(log(session, [{ n: '\ufffd' }]))
  const at = bytes.indexOf(Buffer.from([0xef, 0xbf, 0xbd]))
  const changed = Buffer.from(bytes)
  changed[at] = 0xf0
  expect(changed.toString('utf8')).toBe(bytes.toString('utf8'))
  expect(judge(changed).intact).toBe(false)
})

test('any one byte changed, put in or taken out makes an export fail', () => {
  const everything = whole().lines
  const text = fc.string({ unit: 'binary', maxLength: 30 })
  fc.assert(
    fc.property(
      fc.array(text, { maxLength: 5 }),
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      fc.boolean(),
      (texts, where, by, all) => {
        const bytes = of(
          all
            ? everything
            : log(
                session,
                texts.map((n) => ({ n })),
              ),
        )
        expect(judge(bytes).intact).toBe(true)
        const at = where % bytes.length
        const changed = Buffer.from(bytes)
        changed[at] = changed[at]! ^ by
        const longer = Buffer.concat([bytes.subarray(0, at), Buffer.from([by]), bytes.subarray(at)])
        const shorter = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)])
        for (const one of [changed, longer, shorter]) expect(judge(one).intact).toBe(false)
      },
    ),
    { numRuns: runs(200) },
  )
})

test('every single byte of an export counts', () => {
  const bytes = of(log(session, [{ n: 'ä' }]))
  for (let at = 0; at < bytes.length; at++) {
    for (const by of [1, 32, 128]) {
      const changed = Buffer.from(bytes)
      changed[at] = changed[at]! ^ by
      expect([at, judge(changed).intact]).toEqual([at, false])
    }
  }
})
