import { isDeepStrictEqual } from 'node:util'
import type { Cell, CellDriver, CellSpec } from './cells/cell.ts'

/** A driver whose cell is started before it is asked for. Whoever then asks for another one gets that, and pays for it. */
export interface WarmCell extends CellDriver, AsyncDisposable {
  /** Resolves when the cell stands, or could not be started. */
  readonly stands: Promise<unknown>
}

/** How a cell that nobody has asked for yet is doing: null when it stands, and otherwise why it does not. */
export type WarmReport = (trouble: string | null) => void

export function warmCell(driver: CellDriver, spec: CellSpec, report: WarmReport = () => {}): WarmCell {
  const cancel = new AbortController()
  let isDead = false
  let isTaken = false
  const tell: WarmReport = (trouble) => {
    if (!isTaken && !cancel.signal.aborted) report(trouble)
  }
  const warm: Promise<Cell | null> = driver.start(spec, cancel.signal).catch((error: unknown) => {
    tell(error instanceof Error ? error.message : String(error))
    return null
  })
  void warm.then(async (cell) => {
    if (cell === null) return
    tell(null)
    const why = await cell.ended
    isDead = true
    tell(why)
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
