import type { SearchHit } from '@anchorhold/protocol/api/records'
import type { Session } from '@anchorhold/protocol/sessions'

export type Show = 'needs_you' | 'working' | 'archived'

export const needsYou = ({ state, open_requests: open }: Session): boolean => state === 'waiting' || open > 0

/** Who needs somebody comes first; then whoever was active last. */
export function ordered(sessions: readonly Session[], show: Show | undefined): { needing: Session[]; rest: Session[] } {
  const sorted = sessions.toSorted((a, b) => b.active_at - a.active_at)
  const needing = sorted.filter(needsYou)
  if (show === 'needs_you') return { needing, rest: [] }
  const rest = sorted.filter((session) => !needsYou(session))
  if (show === 'working')
    return { needing: [], rest: sorted.filter(({ state }) => state === 'working' || state === 'waiting' || state === 'creating') }
  return { needing, rest }
}

/** The last part of a workspace's path; one that the daemon made for the session has no name that says anything. */
export function folderName(workspace: string, id: string): string {
  return workspace.includes(id) ? 'own folder' : lastPart(workspace)
}

export const lastPart = (path: string): string => path.split('/').findLast((part) => part !== '') ?? path

export type Piece = { readonly text: string; readonly found: boolean }

/** A snippet with the words that were found marked. */
export const pieces = (snippet: string): readonly Piece[] =>
  snippet
    .split(/(«[^»]*»)/)
    .filter((part) => part !== '')
    .map((part) => (/^«[^»]*»$/.test(part) ? { text: part.slice(1, -1), found: true } : { text: part, found: false }))

/** Hits by session, in the order in which each session was first found. */
export function bySession(hits: readonly SearchHit[]): readonly (readonly SearchHit[])[] {
  return [...Map.groupBy(hits, ({ session }) => session).values()]
}
