import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { accelNote, hopeless, recallAccel, rememberAccel } from './accel.ts'

const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
afterAll(() => rmSync(folder, { recursive: true }))
const at = (name: string) => {
  writeFileSync(join(folder, name), name)
  return join(folder, name)
}

describe('hopeless()', () => {
  test.each([
    ['without a device', 'arm64', '/nonexistent/kvm', '', 'there is no "/nonexistent/kvm"'],
    ['with a device and a processor that has not got it', 'x64', '/dev/null', 'flags\t\t: fpu vme', 'neither vmx nor svm'],
    ['with a flag that only begins so', 'x64', '/dev/null', 'flags\t\t: vmxnet', 'neither vmx nor svm'],
  ] as const)('%s', (_, arch, kvm, cpuinfo, words) => {
    expect(hopeless(arch, kvm, cpuinfo)).toContain(words)
  })

  test('leaves it to a boot otherwise', () => {
    expect(hopeless('x64', '/dev/null', 'flags\t\t: fpu vmx sse')).toBeNull()
    expect(hopeless('x64', '/dev/null', 'flags : svm')).toBeNull()
    expect(hopeless('arm64', '/dev/null', '')).toBeNull()
  })
})

describe('recallAccel()', () => {
  const files = { kernel: at('kernel'), accel: join(folder, 'accel.json') }
  const qemu = at('qemu')
  const verdict = { accel: 'kvm', at: 1_700_000_000_000, why: 'a machine was seen to boot' } as const

  test('gives back what was remembered, on the same machine and no other', () => {
    expect(recallAccel(files, qemu, '/dev/null')).toBeNull()
    rememberAccel(files, qemu, '/dev/null', verdict)
    expect(recallAccel(files, qemu, '/dev/null')).toEqual(verdict)
    expect(recallAccel(files, qemu, '/dev/zero')).toBeNull()
    utimesSync(qemu, 1, 1)
    expect(recallAccel(files, qemu, '/dev/null')).toBeNull()
  })

  test('takes a file that it cannot read for none', () => {
    writeFileSync(files.accel, '{"accel":"warp"}')
    expect(recallAccel(files, qemu, '/dev/null')).toBeNull()
  })
})

test('accelNote() names software as slow, and says when and why', () => {
  expect(accelNote(null)).toMatch(/software, which is slow.*not tried yet.*doctor --fresh/)
  const at = Date.UTC(2026, 10, 15, 12)
  expect(accelNote({ accel: 'tcg', at, why: 'there is no "/dev/kvm"' })).toMatch(
    /slow.*2026-11-15 12:00.*there is no "\/dev\/kvm"/,
  )
  expect(accelNote({ accel: 'kvm', at, why: 'a machine was seen to boot' })).toMatch(/hardware \(KVM\).*2026-11-15/)
})
