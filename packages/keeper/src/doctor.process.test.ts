import { DoctorReport, type KnownHole } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import type { Rung } from '@anchorhold/protocol/rungs'
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
  const { rungs } = await examine({ ...options, drivers: [bwrapDriver({ bwrapPath: '/nonexistent/bwrap' })], now: () => 7 })
  expect(rungs).toEqual([
    {
      rung: 'bwrap',
      available: false,
      tried_at: 7,
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

test('examine() believes what was found of a slow rung, and tries the quick ones', async () => {
  const slow = { ...noneDriver(), rung: 'container' as Rung, start: () => Promise.reject(new Error('it was tried')) }
  const known = { rung: slow.rung, available: true, tried_at: 5, start_ms: 400, missing: [], limits: [] }
  const stale = { ...known, rung: 'bwrap' as const, available: false }
  const { rungs } = await examine({ ...options, drivers: [bwrapDriver(), slow], before: [stale, known] })
  expect(rungs).toMatchObject([{ rung: 'bwrap', available: true }, known])
})

test('examine() says which extras a container has, and what is missing for the others', async () => {
  const refused = new Failure('cell_unavailable', 'there is no range of users', { hint: 'add one' })
  const none = noneDriver()
  const start: CellDriver['start'] = (spec, signal) =>
    spec.extras.sudo || spec.extras.nested ? Promise.reject(refused) : none.start(spec, signal)
  const driver = { ...none, start, rung: 'container' as Rung }
  const missing = [{ what: 'there is no range of users', remedy: 'add one' }]
  const { rungs } = await examine({ ...options, drivers: [driver], starts: 1, extrasRoot: null })
  expect(rungs[0]?.extras).toEqual([
    { name: 'gpu', available: true, missing: [] },
    { name: 'sudo', available: false, missing },
    { name: 'nested', available: false, missing },
  ])
  expect((await examine({ ...options, drivers: [driver], starts: 1 })).rungs[0]?.extras).toBeUndefined()
})

test('examine() looks again for what was missing, and repeats it only where there is no time to look', async () => {
  const before = [
    {
      rung: 'container' as const,
      available: false,
      tried_at: 5,
      start_ms: null,
      limits: [],
      missing: [{ what: 'Podman', remedy: '' }],
    },
  ]
  const mended = { ...noneDriver(), rung: 'container' as Rung }
  expect((await examine({ ...options, drivers: [mended], before })).rungs).toMatchObject([{ available: true, missing: [] }])
  const slow = { ...mended, start: (_: unknown, signal: AbortSignal) => rejectsWith(signal) }
  expect((await examine({ ...options, drivers: [slow], before, withinMs: 10 })).rungs).toEqual(before)
})

test('examine() says of what it had no time for that it was not tried', async () => {
  const start = (_: unknown, signal: AbortSignal) => rejectsWith(signal)
  const { rungs } = await examine({ ...options, drivers: [{ ...noneDriver(), start }], withinMs: 10 })
  expect(rungs).toMatchObject([{ available: false, tried_at: null, missing: [{ remedy: 'anchorhold doctor --fresh' }] }])
})

const rejectsWith = (signal: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    // On a busy machine the time may be over before it begins.
    if (signal.aborted) reject(signal.reason as Error)
    signal.addEventListener('abort', () => reject(signal.reason as Error))
  })

test('examine() looks for known holes each time, also where it believes that the rung starts', async () => {
  const hole: KnownHole = { ids: ['CVE-1'], what: 'it has one', touched: 'no', why: 'it is not used', remedy: 'Install another' }
  const { missing, start } = bwrapDriver()
  let holes = [hole]
  const driver: CellDriver = { rung: 'container', missing, start, holes: async () => holes }
  const { rungs } = await examine({ ...options, drivers: [driver], starts: 1 })
  expect(rungs).toMatchObject([{ available: true, holes: [hole] }])
  holes = []
  const mended = await examine({ ...options, drivers: [driver], before: rungs })
  expect(mended.rungs[0]).toMatchObject({ available: true, tried_at: rungs[0]!.tried_at })
  expect(mended.rungs[0]).not.toHaveProperty('holes')
})
