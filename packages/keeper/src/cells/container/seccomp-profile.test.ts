import { type Extras, noExtras } from '@anchorhold/protocol/sessions'
import { describe, expect, test } from 'vitest'
import { refused } from '../seccomp.ts'
import { complement, seccompProfile } from './seccomp-profile.ts'

const matches = (value: number, patterns: ReturnType<typeof complement>) =>
  patterns.filter(({ mask, value: wanted }) => (value & mask) >>> 0 === wanted).length

test('complement() is every number but those, each once', () => {
  const excluded = [0x5412, 0x541c, 0, 0xffffffff]
  const patterns = complement(excluded)
  for (const value of excluded) expect(matches(value, patterns)).toBe(0)
  const ofFour = complement([1, 5], 3)
  expect([0, 1, 2, 3, 4, 5, 6, 15, 16, 17].map((value) => matches(value, ofFour))).toEqual([1, 0, 1, 1, 1, 0, 1, 1, 1, 0])
  for (const value of [1, 2, 0x5411, 0x5413, 0x541d, 0x541b, 0x80000000, 0xfffffffe]) expect(matches(value, patterns)).toBe(1)
})

describe('seccompProfile()', () => {
  const profile = seccompProfile('arm64', { sudo: false, nested: false })
  const rulesOf = (name: string, of = profile) => of.syscalls.filter(({ names }) => names.includes(name))

  test('refuses what the filter of bubblewrap cells refuses, and leaves what it does not know unanswered', () => {
    for (const name of refused) expect(rulesOf(name)).toMatchObject([{ action: 'SCMP_ACT_ERRNO', errnoRet: 1 }])
    expect(profile).toMatchObject({ defaultAction: 'SCMP_ACT_ERRNO', defaultErrnoRet: 38, architectures: ['SCMP_ARCH_AARCH64'] })
    expect(rulesOf('clone3')).toMatchObject([{ errnoRet: 38 }])
    expect(rulesOf('execve')).toMatchObject([{ action: 'SCMP_ACT_ALLOW' }])
  })

  test('lets clone make no namespace', () => {
    const [first, ...rest] = rulesOf('clone')
    expect(first).toMatchObject({ action: 'SCMP_ACT_ALLOW', args: [{ value: 0x7e020000, valueTwo: 0 }] })
    expect(rest.every((rule) => rule.action === 'SCMP_ACT_ERRNO')).toBe(true)
  })

  test('opens for an engine inside what it needs, and nothing that reaches into other processes or the kernel', () => {
    const nested = seccompProfile('x64', { sudo: false, nested: true })
    expect(rulesOf('mount', nested)).toMatchObject([{ action: 'SCMP_ACT_ALLOW' }])
    for (const name of ['ptrace', 'bpf', 'io_uring_setup', 'init_module', 'userfaultfd'])
      expect(rulesOf(name, nested)).toMatchObject([{ action: 'SCMP_ACT_ERRNO' }])
  })

  test('lets root of an engine or of a package make set-user-id programs, and nobody else', () => {
    const refusing = (extras: Partial<Extras>) =>
      rulesOf('chmod', seccompProfile('x64', { ...noExtras, ...extras })).filter(({ action }) => action === 'SCMP_ACT_ERRNO')
        .length
    expect([refusing({}), refusing({ sudo: true }), refusing({ nested: true })]).toEqual([2, 0, 0])
  })
})
