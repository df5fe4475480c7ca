import { DoctorReport } from '@anchorhold/protocol/doctor'
import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import type { CellDriver } from './cells/cell.ts'
import { bwrapDriver } from './cells/bwrap/bwrap.ts'
import { noneDriver } from './cells/none/none.ts'
import { examine } from './doctor.ts'

const options = { home: tmpdir() }

test('examine() measures a real start of every rung that is there', async () => {
  const report = DoctorReport.parse(await examine({ ...options, drivers: [noneDriver(), bwrapDriver()] }))
  expect(report.rungs.map(({ rung, available }) => [rung, available])).toEqual([
    ['none', true],
    ['bwrap', true],
  ])
  for (const { start_ms, limits } of report.rungs) {
    expect(start_ms).toBeGreaterThan(0)
    expect(limits.length).toBeGreaterThan(0)
  }
  expect(report.kernel).toMatchObject({ user_namespaces: true, seccomp: true })
})

test('examine() tells what is missing and how to mend it', async () => {
  const { rungs } = await examine({ ...options, drivers: [bwrapDriver({ bwrapPath: '/nonexistent/bwrap' })] })
  expect(rungs).toEqual([
    {
      rung: 'bwrap',
      available: false,
      start_ms: null,
      limits: [],
      missing: [{ what: 'bubblewrap is not installed', remedy: expect.stringContaining('bubblewrap') }],
    },
  ])
})

test('examine() does not believe a program that is there but does not work', async () => {
  const driver: CellDriver = bwrapDriver({ bwrapPath: '/bin/false' })
  const { rungs } = await examine({ ...options, drivers: [driver] })
  expect(rungs[0]).toMatchObject({ available: false, missing: [{ what: expect.stringContaining('Cannot start a bwrap cell') }] })
})
