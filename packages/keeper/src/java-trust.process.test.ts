import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { expect, test } from 'vitest'
import { javaTrust, javaTrustPassword } from './java-trust.ts'

test('javaTrust() ends in a digest over the whole of it, and has every certificate', () => {
  const store = javaTrust(rootCertificates.slice(0, 3).join('\n'), 1_700_000_000_000)
  expect(store.subarray(0, 12).toString('hex')).toBe('feedfeed0000000200000003')
  expect(store.includes(Buffer.from(rootCertificates[2]!.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64'))).toBe(true)
})

test.skipIf(spawnSync('keytool', ['-help']).error !== undefined)('javaTrust() is what Java reads', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-java-'))
  const path = join(folder, 'trust.jks')
  writeFileSync(path, javaTrust(rootCertificates.slice(0, 5).join('\n'), Date.now()))
  const list = () =>
    execFileSync('keytool', ['-list', '-keystore', path, '-storepass', javaTrustPassword], { encoding: 'utf8', stdio: 'pipe' })
  expect(list()).toContain('5 entries')
  const bent = readFileSync(path)
  bent[bent.length - 30]! ^= 1
  writeFileSync(path, bent)
  expect(list).toThrow()
  rmSync(folder, { recursive: true })
})
