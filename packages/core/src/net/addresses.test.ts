import { runs } from '@anchorhold/protocol/test-runs'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { addressKind, formatAddress, parseAddress } from './addresses.ts'
import { connectTarget } from './target.ts'

const isPublic = (address: Parameters<typeof addressKind>[0]) => addressKind(address) === 'public'

type Form = { readonly kind: string; readonly form: string; readonly text: string }
const forms: readonly Form[] = readFileSync(new URL('forbidden-addresses.txt', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => {
    const [kind = '', form = '', text = ''] = line.split('\t')
    return { kind, form, text }
  })

/** What the old inet_aton(3) takes for an address: one to four numbers, each decimal, octal or hexadecimal. */
function inetAton(text: string): string | null {
  const parts = text.replace(/\.$/, '').split('.')
  if (parts.length > 4 || !parts.every((part) => /^(0x[0-9a-f]*|0[0-7]*|[1-9]\d*)$/i.test(part))) return null
  const numbers = parts.map((part) => BigInt(/^0x$/i.test(part) ? 0 : /^0[0-7]+$/.test(part) ? `0o${part.slice(1)}` : part))
  const last = numbers.pop()!
  if (numbers.some((number) => number > 255n)) return null
  let value = last & 0xffff_ffffn
  for (const [at, number] of numbers.entries()) value |= number << BigInt(24 - 8 * at)
  return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join('.')
}
function byUrl(text: string): string | null {
  try {
    return new URL(`http://${text}/`).hostname.replace(/^\[|\]$/g, '')
  } catch {
    return null
  }
}

/** Where a spelling leads: nowhere, to a name that is looked up, or to an address. */
function leadsTo(text: string): 'nowhere' | 'a name' | 'an address' | 'a name that others take for an address' {
  const target = connectTarget(`${text}:443`)
  if ('misnamed' in target) return 'nowhere'
  if (!target.isAddress) {
    const others = [byUrl(target.host), inetAton(target.host)]
    return others.some((other) => other !== null && parseAddress(other) !== null)
      ? 'a name that others take for an address'
      : 'a name'
  }
  return isPublic(parseAddress(target.host)!) ? 'an address' : 'nowhere'
}

test(`addressKind() lets none of the ${forms.length} forms of forbidden addresses through`, () => {
  expect(new Set(forms.map(({ text }) => text)).size).toBeGreaterThan(1000)
  const through = forms.filter(({ text }) => leadsTo(text) !== 'nowhere')
  // Names, which are judged by what they resolve to.
  expect(through.map(({ text }) => text)).toEqual(['localhost', 'LOCALHOST', 'a.localhost'])
  expect(through.every(({ text }) => leadsTo(text) === 'a name')).toBe(true)
})

test.each([
  ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.1', '100.63.255.255', '100.128.0.1', '126.255.255.255', '128.0.0.1'],
  ...['169.253.255.255', '169.255.0.1', '172.15.255.255', '172.32.0.1', '192.0.1.1', '192.167.255.255', '192.169.0.1'],
  ...['198.17.255.255', '198.20.0.1', '223.255.255.255', '168.63.129.15'],
  ...['[2606:4700:4700::1111]', '[2a00:1450:4001:801::200e]', '[2001:4860:4860::8888]', '[2400:cb00::1]', '[3ffd::1]'],
  ...['[64:ff9b::8.8.8.8]', '[2600:1::5efe:8.8.8.8]', '[2620:4f:8001::1]', '[2001:200::1]', '[2001:db7::1]', '[2003::1]'],
])('addressKind() knows %s as everybody’s', (text) => {
  expect(leadsTo(text)).toBe('an address')
})

test.each([
  ['127.0.0.1', 'own'],
  ['10.1.2.3', 'own'],
  ['100.64.1.1', 'own'],
  ['::1', 'own'],
  ['fd12::1', 'own'],
  ['169.254.169.254', 'never'],
  ['100.100.100.200', 'never'],
  ['fd00:ec2::254', 'never'],
  ['fe80::1', 'never'],
  ['::ffff:127.0.0.1', 'never'],
  ['::ffff:8.8.8.8', 'never'],
  ['2002:808:808::1', 'never'],
  ['0.0.0.0', 'never'],
  ['::', 'never'],
  ['255.255.255.255', 'never'],
] as const)('addressKind() says whose %s is', (text, kind) => {
  expect(addressKind(parseAddress(text)!)).toBe(kind)
})

const ipv4 = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255))
const ipv6 = fc.array(fc.nat(255), { minLength: 16, maxLength: 16 })
const zeroRuns = fc
  .array(fc.oneof(fc.constant([0, 0]), fc.tuple(fc.nat(255), fc.nat(255))), { minLength: 8, maxLength: 8 })
  .map((groups) => groups.flat())

test('formatAddress() writes what parseAddress() reads, in one way, and as the URL standard does', () => {
  fc.assert(
    fc.property(fc.oneof(ipv4, ipv6, zeroRuns), (bytes) => {
      const text = formatAddress(bytes)
      expect(parseAddress(text)).toEqual(bytes)
      expect(byUrl(bytes.length === 16 ? `[${text}]` : text)).toBe(text)
    }),
  )
})

/** Spellings of an IPv4 address, whatever its parser may be. */
const spelling = fc
  .tuple(fc.constantFrom(...forms.filter(({ form }) => form === 'dotted').map(({ text }) => text)), ipv4, fc.boolean())
  .map(([known, any, isKnown]) => (isKnown ? known.split('.').map(Number) : [...any]))
  .chain((bytes) => {
    const number = bytes.reduce((sum, byte) => sum * 256 + byte, 0)
    const write = (value: number) =>
      fc.constantFrom(String(value), `0x${value.toString(16)}`, `0X${value.toString(16).toUpperCase()}`, `0${value.toString(8)}`)
    const parts = [[number], [bytes[0]!, number % 2 ** 24], [bytes[0]!, bytes[1]!, number % 2 ** 16], bytes] as const
    return fc.constantFrom(...parts).chain((values) =>
      fc.tuple(...values.map(write)).chain((written) => {
        const text = written.join('.')
        const hex = [0, 2].map((at) => (bytes[at]! * 256 + bytes[at + 1]!).toString(16)).join(':')
        return fc.constantFrom(
          ...[text, `${text}.`, bytes.join('.'), `[::ffff:${bytes.join('.')}]`, `[::${hex}]`, `[::ffff:${hex}]`],
          ...[`[2002:${hex}::]`, `[64:ff9b::${hex}]`, `[64:ff9b:1::${hex}]`, `[fe80::5efe:${hex}]`, `[2600::5efe:${hex}]`],
          ...[text.replaceAll('.', '。'), text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))],
        )
      }),
    )
  })

test('addressKind() is never won by spelling: what URL or inet_aton take for a forbidden address leads nowhere', () => {
  fc.assert(
    fc.property(spelling, (text) => {
      const others = [byUrl(text), inetAton(text)].flatMap((other) => parseAddress(other ?? '') ?? [])
      const where = leadsTo(text)
      expect(where).not.toBe('a name that others take for an address')
      if (others.length > 0 && where === 'an address') {
        const target = connectTarget(`${text}:443`)
        expect('host' in target && [byUrl(text), inetAton(text)].includes(target.host)).toBe(true)
        expect([byUrl(text), inetAton(text)].every((one) => one === null || isPublic(parseAddress(one)!))).toBe(true)
      }
    }),
    { numRuns: runs(20_000) },
  )
})

test('addressKind() is nowhere milder than ipaddr.js, and stricter where that one is wrong', () => {
  const range = (bytes: readonly number[]) => ipaddr.fromByteArray([...bytes]).range()
  fc.assert(
    fc.property(fc.oneof(ipv4, ipv6, zeroRuns), (bytes) => {
      if (isPublic(bytes)) expect(['unicast', 'rfc6052']).toContain(range(bytes))
    }),
    { numRuns: runs(20_000) },
  )
  const dotted = forms.filter(({ form }) => form === 'dotted' || form === 'compatible')
  const missed = dotted.filter(({ text }) => range(parseAddress(text.replace(/^\[|\]$/g, ''))!) === 'unicast')
  expect(missed.length).toBeGreaterThan(0)
})

test.each(['', '1', '1.2.3', '1.2.3.4.5', '01.2.3.4', '256.1.1.1', '1.2.3.4 ', ':', ':::', '1:2', '::1::', '1:2:3:4:5:6:7:8:9'])(
  'parseAddress() knows no address in %j',
  (text) => {
    expect(parseAddress(text)).toBeNull()
  },
)
