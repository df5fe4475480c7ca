import type { Cell, CellProcess } from '@anchorhold/keeper/cells/cell'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { attached } from './attached.ts'

test('a process that has run a command is not ended by writing to one that has gone', async () => {
  const command: CellProcess = {
    stdin: new PassThrough(),
    stdout: new PassThrough().end(),
    stderr: new PassThrough().end(),
    exited: Promise.resolve(3),
    exitCode: 3,
    killed: false,
    kill: () => true,
  }
  const cell = { spawn: () => command, ended: new Promise(() => {}) } as Partial<Cell> as Cell
  for (const again of [1, 2]) {
    expect(await attached(cell, ['anything'], { env: {}, cwd: '/' }), `time ${again}`).toBe(3)
    expect(process.listenerCount('SIGPIPE')).toBe(1)
  }
  expect(process.listenerCount('SIGTERM')).toBe(0)
})
