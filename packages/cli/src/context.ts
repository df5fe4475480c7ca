import { Failure } from '@anchorhold/protocol/failures'
import type { Session } from '@anchorhold/protocol/sessions'
import { type Daemon, findDaemon, startDaemon, whereabouts, type Where, type WhereFlags } from './daemon.ts'
import type { Terminal } from './terminal.ts'

/** What every command is given. */
export interface Context {
  readonly terminal: Terminal
  where(): Where
  /** The daemon; throws with the remedy when none runs. */
  daemon(): Promise<Daemon>
  /** The daemon, started first when none runs. */
  daemonOrStart(): Promise<Daemon>
  /** A session by its id, the beginning of its id, or `last`. */
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
      throw new Failure('unauthenticated', `No daemon runs for the state folder "${state}"`, { hint: 'Start one: anchorhold up' })
    throw new Failure(
      'unauthenticated',
      `No daemon is found ${as.url === null ? `for the state folder "${state}"` : `at ${as.url}`}`,
      {
        hint: 'Set ANCHORHOLD_URL to where it is reached',
      },
    )
  }
  return {
    terminal,
    where,
    daemon: running,
    async daemonOrStart() {
      // Only whoever it belongs to starts one.
      if (where().as !== null) return running()
      const found = await findDaemon(where())
      if (found !== null) return found
      terminal.spin('starting the daemon')
      const daemon = await startDaemon({ where: where() })
      terminal.still()
      return daemon
    },
    async session({ api }, name) {
      if (/^ses_[0-9a-z]{16}$/.test(name)) return api.getSession({ params: { id: name } })
      const open = await api.listSessions({ query: { limit: 500 } })
      if (name === 'last') {
        const [newest] = open.sessions
        if (newest === undefined) throw new Failure('not_found', 'There is no session yet')
        return newest
      }
      const archived = await api.listSessions({ query: { limit: 500, archived: 'true' } })
      const wanted = name.replace(/^ses_/, '')
      const found = [...open.sessions, ...archived.sessions].filter(({ id }) => id.slice(4).startsWith(wanted))
      if (found.length === 1) return found[0]!
      throw new Failure(
        'not_found',
        found.length === 0 ? `There is no session "${name}"` : `"${name}" could be ${found.length} sessions`,
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
