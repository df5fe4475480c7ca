import type { Session } from '@anchorhold/protocol/sessions'
import type { Daemon } from './daemon.ts'

const pageMax = 500

/** Every session that this user sees, however many, the newest first. */
export async function allSessions({ api }: Daemon, { archived }: { readonly archived: boolean }): Promise<readonly Session[]> {
  const all: Session[] = []
  const query = { limit: pageMax, archived: archived ? 'true' : 'false' } as const
  for (let before: number | undefined; ; before = all.at(-1)?.active_at) {
    const { sessions, more } = await api.listSessions({ query: before === undefined ? query : { ...query, before } })
    all.push(...sessions)
    if (!more) return all
  }
}
