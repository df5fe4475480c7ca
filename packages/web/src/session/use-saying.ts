import type { SessionId } from '@anchorhold/protocol/ids'
import { useQuery } from '@tanstack/react-query'
import { keys } from '../live/apply.ts'
import { type Saying, silence } from '../log/saying.ts'

/** What the session's agent is saying right now; the stream alone knows it. */
export const useSaying = (session: SessionId): Saying =>
  useQuery({ queryKey: keys.saying(session), queryFn: () => silence, enabled: false, initialData: silence }).data

/** How long a running tool call has been at it. */
export const useElapsed = (session: SessionId, call: string): number | null =>
  useQuery({
    queryKey: keys.saying(session),
    queryFn: () => silence,
    enabled: false,
    initialData: silence,
    select: (saying) => saying.elapsedMs[call] ?? null,
  }).data
