import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { groupSettings, makeGroups } from './cgroups.ts'
import { affordable, hardLimit, prlimitArgv } from './rlimits.ts'
import { trialLimits } from '../trial.ts'

describe('rlimits', () => {
  const own = [
    'Limit                     Soft Limit           Hard Limit           Units     ',
    'Max file size             unlimited            unlimited            bytes     ',
    'Max core file size        0                    0                    bytes     ',
    'Max processes             96373                96373                processes ',
    'Max open files            1024                 20000                files     ',
  ].join('\n')

  test('hardLimit() reads the second figure', () => {
    expect(hardLimit(own, 'nofile')).toBe(20_000)
    expect(hardLimit(own, 'fsize')).toBe(Infinity)
    expect(hardLimit('', 'fsize')).toBeNull()
  })

  test('affordable() never asks for more than the own hard limit', () => {
    expect(affordable({ nofile: 65_536, fsize: 100, core: 1, nproc: null }, own)).toEqual({
      nofile: 20_000,
      fsize: 100,
      core: 0,
      nproc: null,
    })
  })

  test('prlimitArgv() sets soft and hard alike and leaves out what is not wanted', () => {
    const argv = prlimitArgv('/usr/bin/prlimit', { nofile: 20, fsize: 100, core: 1, nproc: null })
    expect(argv).toEqual(['/usr/bin/prlimit', '--nofile=20:20', '--fsize=100:100', '--core=1:1', '--'])
  })
})

describe('control groups', () => {
  test('groupSettings() forbids swap in both versions', () => {
    expect(groupSettings(2, trialLimits).memory).toContainEqual({ file: 'memory.swap.max', value: '0' })
    expect(groupSettings(1, trialLimits).memory).toContainEqual({
      file: 'memory.memsw.limit_in_bytes',
      value: String(trialLimits.memoryBytes),
    })
    expect(groupSettings(2, { ...trialLimits, cpus: 1.5 }).cpu).toEqual([{ file: 'cpu.max', value: '150000 100000' }])
  })

  test('makeGroups() holds nothing where a folder is no control group', () => {
    const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
    expect(makeGroups([folder, '/nonexistent'], 'cell', trialLimits)).toBeNull()
    rmSync(folder, { recursive: true })
  })
})
