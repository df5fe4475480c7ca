import { expect, test } from 'vitest'
import { cellSpec } from './cell-spec.ts'
import { fakeCells } from './cells/fake-cell.ts'
import { fakeStart } from './fake-start.ts'
import { warmCell } from './warm-cell.ts'

const spec = cellSpec(fakeStart().place, { mounts: [], covers: [] })
const signal = () => new AbortController().signal

test('warmCell() gives the cell that stands already to who asks for just that', async () => {
  const cells = fakeCells()
  const warm = warmCell(cells, spec)
  await warm.start(structuredClone(spec), signal())
  expect([cells.specs.length, cells.standing]).toEqual([1, 1])
  await warm[Symbol.asyncDispose]()
  expect(cells.standing).toBe(1)
})

test('warmCell() lets it go for who asks for another, and when nobody does', async () => {
  const cells = fakeCells()
  const warm = warmCell(cells, spec)
  await warm.start({ ...spec, workspace: '/elsewhere' }, signal())
  expect([cells.specs.length, cells.standing]).toEqual([2, 1])
  const idle = fakeCells()
  await warmCell(idle, spec)[Symbol.asyncDispose]()
  expect(idle.standing).toBe(0)
})

test('warmCell() starts another where the first could not start, or has ended since', async () => {
  let fails = true
  const cells = fakeCells({
    async standing() {
      if (fails) throw new Error('not now')
    },
  })
  const warm = warmCell(cells, spec)
  await Promise.resolve()
  fails = false
  await warm.start(spec, signal())
  expect(cells.standing).toBe(1)
  const mortal = fakeCells()
  const second = warmCell(mortal, spec)
  await new Promise((resolve) => setImmediate(resolve))
  mortal.end('out of memory')
  await second.start(spec, signal())
  expect(mortal.specs).toHaveLength(2)
})

test('warmCell() tells how the cell that waits is doing, and nothing once it is taken or let go', async () => {
  const told: (string | null)[] = []
  const heard = (trouble: string | null) => void told.push(trouble)
  const settled = () => new Promise((resolve) => setImmediate(resolve))
  const fails = async () => {
    throw new Error('Podman is not installed')
  }
  warmCell(fakeCells({ standing: fails }), spec, heard)
  await settled()
  expect(told.splice(0)).toEqual(['Podman is not installed'])
  const mortal = fakeCells()
  warmCell(mortal, spec, heard)
  await settled()
  mortal.end('out of memory')
  await settled()
  expect(told.splice(0)).toEqual([null, 'out of memory'])
  const taken = fakeCells()
  await warmCell(taken, spec, heard).start(spec, signal())
  taken.end('out of memory')
  await settled()
  expect(told).toEqual([null])
})
