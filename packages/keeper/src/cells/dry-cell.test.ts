import { Failure } from '@anchorhold/protocol/failures'
import { expect, test } from 'vitest'
import { dryCell } from './dry-cell.ts'

test.runIf(process.platform === 'linux')(
  'dryCell() is refused: a program that makes no cell is never taken for one',
  async () => {
    await expect(dryCell()).rejects.toThrow(Failure)
  },
)
