import { isDeepStrictEqual } from 'node:util'
import type { Cell, CellDriver, CellSpec } from './cells/cell.ts'

/** A driver whose cell is started before it is asked for. Whoever then asks for another one gets that, and pays for it. */
export interface WarmCell extends CellDriver, AsyncDisposable {
  /** Resolves when the cell stands, or could not be started. */
  readonly stands: Promise<unknown>
}

export function warmCell(driver: CellDriver, spec: CellSpec): WarmCell {
  const cancel = new AbortController()
  let isDead = false
  let isTaken = false
  const warm: Promise<Cell | null> = driver.start(spec, cancel.signal).catch(() => null)
  void warm.then(async (cell) => {
    await cell?.ended
    isDead = true
  })
  async function letGo(): Promise<void> {
    if (isTaken) return
    cancel.abort()
    await (await warm)?.[Symbol.asyncDispose]()
  }
  return {
    stands: warm,
    rung: driver.rung,
    missing: () => driver.missing(),
    async start(wanted, signal) {
      if (!isTaken && isDeepStrictEqual(wanted, spec)) {
        const stop = () => cancel.abort(signal.reason)
        signal.addEventListener('abort', stop)
        const cell = await warm
        signal.removeEventListener('abort', stop)
        signal.throwIfAborted()
        if (cell !== null && !isDead) {
          isTaken = true
          return cell
        }
      }
      await letGo()
      isTaken = true
      return driver.start(wanted, signal)
    },
    [Symbol.asyncDispose]: letGo,
  }
}
