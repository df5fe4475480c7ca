import { runs } from '@anchorhold/protocol/test-runs'
import fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  absoluteTarget,
  authorityOf,
  connectTarget,
  hostTarget,
  isSameTarget,
  type Misnamed,
  originPath,
  serverName,
  type Target,
  urlTarget,
} from './target.ts'

/** `other` is what is named beside it: a Host header, or the name that TLS asks for. */
type Trick = { readonly as: 'connect' | 'absolute' | 'host' | 'sni'; readonly text: string; readonly other?: string }
const tricks = JSON.parse(readFileSync(new URL('forbidden-targets.json', import.meta.url), 'utf8')) as readonly Trick[]

const isMisnamed = (value: object | string): value is Misnamed => typeof value === 'object' && 'misnamed' in value

function getsThrough({ as, text, other = '' }: Trick): boolean {
  if (as === 'connect') return !isMisnamed(connectTarget(text))
  if (as === 'absolute') return !isMisnamed(absoluteTarget(text))
  if (as === 'sni') return serverName(other) === (connectTarget(text) as Target).host
  const asked = absoluteTarget(text)
  const said = hostTarget(other, 80)
  return 'target' in asked && 'host' in said && isSameTarget(asked.target, said)
}

test(`none of the ${tricks.length} tricks with authorities, URLs, Host and server names gets through`, () => {
  expect(tricks.length).toBeGreaterThan(300)
  expect(tricks.filter(getsThrough)).toEqual([])
})

test.each([
  ['allowed.test:443', { host: 'allowed.test', port: 443, isAddress: false }],
  ['Allowed.TEST:8443', { host: 'allowed.test', port: 8443, isAddress: false }],
  ['xn--bcher-kva.example:443', { host: 'xn--bcher-kva.example', port: 443, isAddress: false }],
  ['localhost:1', { host: 'localhost', port: 1, isAddress: false }],
  ['3com.com:65535', { host: '3com.com', port: 65_535, isAddress: false }],
  ['8.8.8.8:53', { host: '8.8.8.8', port: 53, isAddress: true }],
  ['[2606:4700:0:0::1]:443', { host: '2606:4700::1', port: 443, isAddress: true }],
])('connectTarget() reads %s', (text, target) => {
  expect(connectTarget(text)).toEqual(target)
  expect(connectTarget(authorityOf(target))).toEqual(target)
})

test.each([
  ['http://allowed.test', '/', 80],
  ['http://allowed.test/', '/', 80],
  ['HTTP://Allowed.Test:8080/a/b?c=d&e=%20', '/a/b?c=d&e=%20', 8080],
  ['http://allowed.test?x=http://evil.test/', '/?x=http://evil.test/', 80],
  ['http://allowed.test/@evil.test', '/@evil.test', 80],
])('absoluteTarget() reads %s', (url, path, port) => {
  expect(absoluteTarget(url)).toEqual({ target: { host: 'allowed.test', port, isAddress: false }, path })
})

test('a host, a path or a URL that is too long is no target', () => {
  expect(connectTarget(`${'a'.repeat(70_000)}:443`)).toHaveProperty('misnamed')
  expect(connectTarget(`${'a.'.repeat(35_000)}test:443`)).toHaveProperty('misnamed')
  expect(originPath(`/${'a'.repeat(8192)}`)).toHaveProperty('misnamed')
  expect(originPath(`/${'a'.repeat(8191)}`)).toHaveLength(8192)
})

test.each([
  '/@scope%2fname',
  '/@scope%2Fname/-/name-1.0.0.tgz',
  '/.well-known/x',
  '/a/...',
  '/a/..b/c..',
  '/a;x=1/b;..',
  '/a?b=../c&d=%2e%2e/',
  '/a%',
  '/%ff',
  '/a//b/',
])('originPath() takes %s as it is', (path) => {
  expect(originPath(path)).toBe(path)
})

const near = fc
  .array(
    fc.oneof(
      {
        weight: 3,
        arbitrary: fc.constantFrom(
          'a',
          'test',
          '.',
          '-',
          ':',
          '/',
          '@',
          '[',
          ']',
          '%',
          '\\',
          '?',
          '#',
          '0',
          '0x',
          '443',
          '127',
          '::1',
        ),
      },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 2 }) },
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''))

test('whatever connectTarget() takes is canonical, and every other parser reads it alike', () => {
  fc.assert(
    fc.property(
      fc.oneof(near, fc.webAuthority({ withIPv4: true, withIPv6: true, withPort: true, withUserInfo: true })),
      (text) => {
        const target = connectTarget(text)
        if ('misnamed' in target) return
        expect(connectTarget(authorityOf(target))).toEqual(target)
        const url = new URL(`http://${text}/`)
        expect(url.hostname.replace(/^\[|\]$/g, '')).toBe(target.host)
        expect(Number(url.port || '80')).toBe(target.port)
        expect(url.username + url.password).toBe('')
      },
    ),
    { numRuns: runs(20_000) },
  )
})

test('whatever absoluteTarget() takes, the URL standard reads alike', () => {
  const urls = fc
    .tuple(fc.constantFrom('http://', 'HTTP://', 'http:/', 'https://', '//'), near, near)
    .map((parts) => parts.join(''))
  fc.assert(
    fc.property(urls, (text) => {
      const found = absoluteTarget(text)
      if ('misnamed' in found) return
      const url = new URL(text)
      expect(url.protocol).toBe('http:')
      expect(url.hostname.replace(/^\[|\]$/g, '')).toBe(found.target.host)
      expect(Number(url.port || '80')).toBe(found.target.port)
    }),
    { numRuns: runs(20_000) },
  )
})

test.each([
  ['https://Allowed.test', 443, '/', true],
  ['http://allowed.test:8080/a?b#c', 8080, '/a?b', false],
  ['HTTPS://allowed.test?x', 443, '/?x', true],
  ['https://allowed.test/ü b', 443, '/%C3%BC%20b', true],
  ['https://allowed.test/\ud800', 443, '/%EF%BF%BD', true],
])('urlTarget() reads %s', (url, port, path, isSecure) => {
  expect(urlTarget(url)).toEqual({ target: { host: 'allowed.test', port, isAddress: false }, path, isSecure })
})

test.each([
  '',
  'ftp://allowed.test/',
  'https:/allowed.test',
  ' https://allowed.test/',
  'https://a@allowed.test/',
  'https://allowed.test\\@evil.test/',
  'https://allowed.test/a\\b',
  'https://allowed.test:0/',
  'https://münchen.test/',
  'javascript:x',
])('urlTarget() does not read %j', (url) => {
  expect(urlTarget(url)).toHaveProperty('misnamed')
})

test.each([
  ['labels', 'a.'.repeat(30_000)],
  ['digits', '1'.repeat(60_000)],
  ['numbers', '1.'.repeat(30_000)],
  ['hyphens', `a${'-'.repeat(60_000)}`],
  ['colons', ':'.repeat(60_000)],
  ['brackets', `[${':'.repeat(60_000)}]`],
  ['zeros in brackets', `[${'0:'.repeat(30_000)}]`],
  ['open brackets', '['.repeat(60_000)],
])('connectTarget() and absoluteTarget() take the longest target of %s for none, and are not slow with it', (_, host) => {
  expect(connectTarget(`${host}:443`)).toHaveProperty('misnamed')
  expect(absoluteTarget(`http://${host}/`)).toHaveProperty('misnamed')
})

test.each(['/'.repeat(8192), '/%2e'.repeat(2000), `/${'%25'.repeat(2700)}`, '/..'.repeat(2700), `/${';'.repeat(8000)}`])(
  'originPath() is not slow with a long path %#',
  (path) => {
    expect(['string', 'object']).toContain(typeof originPath(path))
  },
)
