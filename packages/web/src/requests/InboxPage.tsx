import { printableLine } from '@anchorhold/core/printable'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { wordsOf } from '../daemon.ts'
import { requestsQuery } from '../live/queries.ts'
import { SecretsMark } from '../sessions/SecretsMark.tsx'
import { PageHeader } from '../shell/PageHeader.tsx'
import { Empty, Trouble } from '../ui/controls.tsx'
import { ago } from '../ui/time.ts'
import { RequestCard } from './RequestCard.tsx'
import { useStill } from './use-still.ts'

/** Everything that waits for a person, of all sessions: the longest waiting first, and last what was put off. */
export function InboxPage() {
  const { data, error } = useQuery(requestsQuery)
  const sorted = data?.toSorted((a, b) => Number(a.deferred) - Number(b.deferred) || a.opened_at - b.opened_at)
  const isStill = useStill(sorted?.map(({ id }) => id) ?? [])
  return (
    <>
      <PageHeader title="Inbox" />
      <div className="scroll flex-1 px-4 pb-8 lg:px-8">
        <div className={`mx-auto grid w-full max-w-2xl grid-cols-1 gap-4 ${isStill ? '' : 'pointer-events-none'}`}>
          {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
          {data?.length === 0 && <Empty title="Nothing is waiting for you">When an agent asks something, it appears here.</Empty>}
          {sorted?.map((request) => (
            <RequestCard
              key={request.id}
              id={request.id}
              action={request.action}
              why={request.why}
              rule={request.rule}
              deferred={request.deferred}
              settled={request.answer === null ? null : { answer: request.answer, by: request.answered_by }}
              from={
                <Link
                  to="/sessions/$id"
                  params={{ id: request.session }}
                  className="flex max-w-full min-w-0 items-baseline gap-1.5 justify-self-start rounded-lg text-sm text-soft hover:text-ink sm:max-w-[45%] sm:shrink-0"
                >
                  <span className="min-w-0 truncate underline decoration-line-strong underline-offset-4">
                    {printableLine(request.session_name)}
                  </span>
                  <SecretsMark of={request} />
                  <span className="shrink-0 text-faint">· {ago(request.opened_at, Date.now())}</span>
                </Link>
              }
            />
          ))}
        </div>
      </div>
    </>
  )
}
