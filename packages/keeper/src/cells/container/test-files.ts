import { chmodSync, constants, copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'vitest'
import type { CellDriver, CellFiles } from '../cell.ts'

/** Node and the program inside where a cell's user can reach them: the clone may lie where it cannot go. */
export function testFiles(): CellFiles & Disposable {
  const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  chmodSync(folder, 0o755)
  const files = { node: join(folder, 'node'), inside: join(folder, 'inside.mjs') }
  copyFileSync(process.execPath, files.node, constants.COPYFILE_FICLONE)
  copyFileSync(join(import.meta.dirname, '../../../../../dist/inside.mjs'), files.inside)
  chmodSync(files.node, 0o755)
  chmodSync(files.inside, 0o644)
  return { ...files, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

/** Never skipped in silence: where the engine is not installed, what is missing is told. One that is and does not start fails. */
export async function describeWhereThere(driver: CellDriver, tests: () => void): Promise<void> {
  const lacks = await driver.missing()
  if (!lacks.some(({ what }) => what.includes('not installed'))) return tests()
  const words = lacks.map(({ what, remedy }) => `${what} (${remedy})`).join('; ')
  console.warn(`The rung "${driver.rung}" is not tested here: ${words}`)
  test.skip(`${driver.rung} is not there: ${words}`, () => {})
}
