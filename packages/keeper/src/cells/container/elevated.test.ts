import { noExtras } from '@anchorhold/protocol/sessions'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { elevatedOf, elevating, lacksElevated, writeElevated } from './elevated.ts'

const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
afterAll(() => rmSync(folder, { recursive: true }))

const sudo = { ...noExtras, sudo: true }
const nested = { ...noExtras, nested: true }

function rootWith(name: string, ...paths: readonly string[]): string {
  const root = join(folder, name)
  for (const path of paths) {
    mkdirSync(join(root, dirname(path)), { recursive: true })
    writeFileSync(join(root, path), '')
  }
  return root
}

test('elevatedOf() gives the bit to sudo alone where only that is asked for, and nothing where nothing is', () => {
  const root = rootWith(
    'dev',
    'usr/bin/sudo',
    'usr/bin/newuidmap',
    'usr/bin/newgidmap',
    'usr/libexec/sudo/sudoers.so',
    'usr/bin/su',
  )
  const bits = (extras: typeof noExtras) =>
    elevatedOf(root, extras)?.copied.flatMap(({ path, mode }) => (mode.startsWith('4') ? [path] : []))
  expect(bits(sudo)).toEqual(['/usr/bin/sudo'])
  expect(bits(nested)).toEqual(['/usr/bin/newuidmap', '/usr/bin/newgidmap'])
  expect(elevatedOf(root, noExtras)).toBeNull()
  expect(elevatedOf(null, sudo)).toBeNull()
  expect(elevatedOf(root, sudo)?.copied).toContainEqual({ path: '/usr/libexec/sudo/sudoers.so', mode: '0644' })
})

test('lacksElevated() says that an image is needed, and what one has not got', () => {
  expect(lacksElevated({ root: null, extras: noExtras })).toEqual([])
  expect(lacksElevated({ root: null, extras: sudo })).toMatchObject([{ what: expect.stringContaining('needs an image') }])
  const root = rootWith('bare', 'usr/bin/newuidmap')
  expect(lacksElevated({ root, extras: { ...sudo, nested: true } })).toEqual([
    { what: 'the image has no /usr/bin/sudo, /usr/bin/newgidmap', remedy: expect.stringContaining('image build --variant dev') },
  ])
})

test('elevating() names what it copies by its path in the image, whatever links and signs are in it', () => {
  const root = rootWith("it's", 'opt/tools/sudo')
  mkdirSync(join(root, 'usr'))
  symlinkSync('/opt/tools', join(root, 'usr/bin'))
  const elevated = elevatedOf(root, sudo)!
  const script = elevating(elevated, { at: '/layer', image: root, written: '/written' })
  const quoted = `'${join(root, 'opt/tools/sudo').replaceAll("'", "'\\''")}'`
  expect(script).toContain(`cp ${quoted} '/layer/opt/tools/sudo'; chown 1:1 '/layer/opt/tools/sudo'; chmod 4755`)
  expect(script).toContain("cp '/written/etc/sudoers' '/layer/etc/sudoers'")
})

test('writeElevated() writes files that nobody else reads before they are given away', () => {
  const written = join(folder, 'written')
  writeElevated(written, elevatedOf(rootWith('two', 'usr/bin/newuidmap'), nested)!)
  expect(readFileSync(join(written, 'etc/subuid'), 'utf8')).toMatch(/^agent:\d+:\d+\n$/)
  expect(statSync(join(written, 'etc/subuid')).mode & 0o777).toBe(0o600)
})
