import { places } from '@anchorhold/core/places'
import { Failure } from '@anchorhold/protocol/failures'
import type { Session } from '@anchorhold/protocol/sessions'
import { existsSync, readdirSync } from 'node:fs'
import { allSessions } from './all-sessions.ts'
import { type Daemon, findDaemon, givenBefore, startDaemon, whereabouts, type Where, type WhereFlags } from './daemon.ts'
import { homeFolder } from './here.ts'
import type { Terminal } from './terminal.ts'

/** How a session is named, in the help of every command that wants one. */
export const whichSession = 'its id, the beginning of its id, or last for the one in which something happened last'

/** What every command is given. */
export interface Context {
  readonly terminal: Terminal
  where(): Where
  /** The path of config.yaml, as the daemon of this state folder reads it. */
  config(): string
  /** The daemon; throws with the remedy when none runs. */
  daemon(): Promise<Daemon>
  /** The daemon, started first when none runs. */
  daemonOrStart(): Promise<Daemon>
  /** What is needed to end agents: the daemon, or one that is started to reach agents that go on without. Null when there are none. */
  daemonToEnd(also?: { readonly launched: boolean }): Promise<{ readonly daemon: Daemon; readonly started: boolean } | null>
  /** A session by its id, the beginning of its id, or `last`: the first that `anchorhold ls` shows. */
  session(daemon: Daemon, name: string): Promise<Session>
  /** Ends the program with this code once everything is written. */
  exit(code: number): void
}

export function context(terminal: Terminal, flags: () => WhereFlags): Context {
  const where = () => whereabouts(flags())
  const running = async (): Promise<Daemon> => {
    const { as, state } = where()
    const daemon = await findDaemon(where())
    if (daemon !== null) return daemon
    if (as === null)
      throw new Failure('unauthenticated', `No daemon is running for the state folder "${state}"`, {
        hint: 'Start one: anchorhold up',
      })
    throw new Failure(
      'unauthenticated',
      `No daemon is found ${as.url === null ? `for the state folder "${state}"` : `at ${as.url}`}`,
      {
        hint: 'Set ANCHORHOLD_URL to its address',
      },
    )
  }
  return {
    terminal,
    where,
    config() {
      const { state, moved } = where()
      const uid = process.getuid?.() ?? -1
      return `${places({ uid, home: homeFolder(), env: process.env, stateFlag: moved ? state : null }).config}/config.yaml`
    },
    daemon: running,
    async daemonOrStart() {
      // Only whoever it belongs to starts one.
      if (where().as !== null) return running()
      const found = await findDaemon(where())
      if (found !== null) return found
      terminal.spin('starting the daemon')
      const daemon = await startDaemon({ where: where(), ...givenBefore(where()) })
      terminal.still()
      return daemon
    },
    async daemonToEnd({ launched } = { launched: false }) {
      const { as, state } = where()
      if (as !== null) return { daemon: await running(), started: false }
      const found = await findDaemon(where())
      if (found !== null) return { daemon: found, started: false }
      const isLeft = existsSync(`${state}/gate/link.sock`) || (launched && isFilled(`${state}/launched`))
      if (!isLeft) return null
      return { daemon: await startDaemon({ where: where(), port: '0' }), started: true }
    },
    async session(daemon, name) {
      const { api } = daemon
      if (/^ses_[0-9a-z]{16}$/.test(name)) return api.getSession({ params: { id: name } })
      if (name === 'last') {
        const {
          sessions: [newest],
        } = await api.listSessions({ query: { limit: 1 } })
        if (newest === undefined) throw new Failure('not_found', 'There are no sessions yet')
        return newest
      }
      const wanted = name.replace(/^ses_/, '')
      const known = await Promise.all([false, true].map((archived) => allSessions(daemon, { archived })))
      const found = known.flat().filter(({ id }) => wanted !== '' && id.slice(4).startsWith(wanted))
      if (found.length === 1) return found[0]!
      throw new Failure(
        'not_found',
        found.length === 0 ? `There is no session "${name}"` : `"${name}" matches ${found.length} sessions`,
        {
          hint: 'anchorhold ls shows them',
        },
      )
    },
    exit(code) {
      process.exitCode = code
    },
  }
}

function isFilled(folder: string): boolean {
  try {
    return readdirSync(folder).length > 0
  } catch {
    return false
  }
}
