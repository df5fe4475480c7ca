import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { lookup } from 'node:dns'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { guardedLookup } from './endpoint.ts'
import { pushService } from './push-service.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-push-'))
})
afterEach(() => rmSync(folder, { recursive: true }))
const open = (ownHosts: readonly string[] = []) =>
  pushService({
    keyFile: join(folder, 'key.json'),
    subject: 'mailto:test@example.invalid',
    ownHosts: new Set(ownHosts),
    log: () => {},
  })

test('pushService() makes its key at first use, keeps it, and lets nobody else read it', async () => {
  const key = await open().key()
  expect(key).toMatch(/^[\w-]{87}$/)
  expect(await open().key()).toBe(key)
  expect(statSync(join(folder, 'key.json')).mode & 0o777).toBe(0o600)
  expect(readFileSync(join(folder, 'key.json'), 'utf8')).toContain(key)
})

test.each([
  'http://push.example.com/x',
  'https://user:pass@push.example.com/x',
  'https://127.0.0.1/x',
  'https://[::1]/x',
  'https://[::ffff:10.0.0.1]/x',
  'https://2130706433/x',
  'https://0x7f.1/x',
  'https://192.168.1.1/x',
  'https://169.254.169.254/latest/meta-data',
  'https://localhost/x',
  'https://a.localhost./x',
  'ftp://push.example.com/x',
  'javascript:1',
  'x',
])('pushService() refuses to be led to %s', (endpoint) => {
  expect(() => open().check(endpoint)).toThrow(/Cannot use the push service/)
})

test('pushService() takes a public service, and one that the owner has named', () => {
  expect(open().check('https://push.example.com/x').hostname).toBe('push.example.com')
  expect(open(['localhost:8443']).check('https://localhost:8443/x').port).toBe('8443')
  expect(() => open(['localhost:8443']).check('https://localhost:8444/x')).toThrow()
})

test('guardedLookup() gives no address of a name that leads into the own network', async () => {
  const found = await new Promise<string>((resolve) =>
    guardedLookup('localhost', {}, (error, address) => resolve(error === null ? JSON.stringify(address) : error.message)),
  )
  expect(found).toMatch(/not in the public network/)
  // The name is one that this machine knows.
  expect(await new Promise((resolve) => lookup('localhost', (error) => resolve(error)))).toBe(null)
})
