import { keepsCompiled } from '@anchorhold/core/compiled'
import { type KeeperStart } from '@anchorhold/protocol/keeper-start'
import { isUnlocked, takeLock } from '@anchorhold/link/lock'
import { watchPath } from '@anchorhold/protocol/link'
import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

export type GateWatch = {
  /** The session's own model window: whoever listens there is the gate. */
  readonly socketPath: string
  readonly gate: NonNullable<KeeperStart['policy']['gate']>
  readonly log: (message: string) => void
}

const retryMs = 100
/** The daemon is quicker, and can give the gate the variables that providers name; so a keeper lets it go first. */
const daemonFirstMs = 1000

/** Starts the gate when it is gone and no daemon does. Of all keepers one does, and should a daemon do it as well, the gate's own lock lets
 *  one through. */
export async function watchGate({ socketPath, gate, log }: GateWatch, signal: AbortSignal): Promise<void> {
  let goneSince: number | null = null
  while (!signal.aborted) {
    const seen = await untilGone(socketPath, signal)
    if (seen === 'served') goneSince = null
    else goneSince ??= performance.now()
    if (goneSince !== null && performance.now() - goneSince >= daemonFirstMs) {
      try {
        // One that lives has closed the window on purpose. One that left in order has taken its windows along.
        if (seen === 'refused' || isUnlocked(join(gate.folder, 'gate.lock'))) startGate(gate, log)
      } catch (error) {
        // For want of room, most likely: it is tried again.
        log(`Cannot start the gate: ${String(error)}`)
      }
      goneSince = null
    }
    await wait(retryMs, undefined, { signal }).catch(() => {})
  }
}

/** Waits at the window until the gate is gone. Or says that it was gone before: nobody listens there, or there is no window. */
function untilGone(socketPath: string, signal: AbortSignal): Promise<'served' | 'refused' | 'absent'> {
  return new Promise((resolve) => {
    const watching = request({ socketPath, path: watchPath, agent: false, signal }, (response) => {
      response.resume()
      response.on('error', () => {})
      response.once('close', () => resolve('served'))
    })
    watching.once('error', ({ code }: NodeJS.ErrnoException) =>
      resolve(code === 'ECONNREFUSED' ? 'refused' : code === 'ENOENT' ? 'absent' : 'served'),
    )
    watching.end()
  })
}

function startGate({ node, script, folder, log: logFile }: GateWatch['gate'], log: (message: string) => void): void {
  const out = openSync(logFile, 'a', 0o600)
  try {
    // Dozens that each start one would keep all of them from standing.
    const turn = takeLock(join(folder, 'starting.lock'))
    if (turn === null) return
    log('The gate is gone and no daemon starts another: starting one')
    try {
      const child = spawn(node, ['--disable-warning=ExperimentalWarning', script, folder], {
        detached: true,
        cwd: '/',
        env: keepsCompiled(folder),
        // The third is where it says that it stands; the window itself tells.
        stdio: ['ignore', out, out, 'ignore'],
      })
      child.once('error', (error) => {
        log(`Cannot start the gate: ${error.message}`)
        turn.release()
      })
      child.once('exit', () => turn.release())
      child.unref()
    } catch (error) {
      turn.release()
      throw error
    }
  } finally {
    closeSync(out)
  }
}
