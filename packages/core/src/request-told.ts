import type { RequestAction, RequestAnswer } from '@anchorhold/protocol/events'

/** What an agent is told when it is no longer there to hear an answer itself. It is to do the same again, word for word: what was
 *  allowed is bound to that. */
export function requestTold(action: RequestAction, answer: RequestAnswer, actor: string): string {
  const because = answer.reason === undefined || answer.reason === '' ? '' : ` The reason: ${answer.reason}`
  const head = 'While you were away, what you had asked for was settled.'
  switch (action.kind) {
    case 'question': {
      if (answer.decision !== 'allow')
        return `${head} ${no(answer, actor, 'to answer your question', 'Your question')}:\n${questions(action)}\n${because}`.trim()
      const given = Object.entries(answer.answers ?? {}).map(([question, words]) => `- ${question}\n  Answer: ${words}`)
      return `${head} ${actor} answered your question:\n${given.join('\n')}\nGo on with that.`
    }
    case 'plan':
      return answer.decision === 'allow'
        ? `${head} ${actor} approved your plan. Carry it out now:\n\n${action.plan}`
        : `${head} ${no(answer, actor, 'your plan', 'Your plan')}.${because} Do not carry it out.`
    default: {
      const what = deed(action)
      return answer.decision === 'allow'
        ? `${head} ${actor} allowed ${what}. Do it again now exactly as before, with the same input: the permission is for that and nothing else. Then go on with your work.`
        : `${head} ${no(answer, actor, what, 'Your request')}.${because} Do not do it; go on without it, or stop and say what you need.`
    }
  }
}

/** What became of a request, in words for people. Only an answer has somebody who gave it. */
export function settledWords({ decision, reason }: RequestAnswer, actor: string): string {
  const because = reason === undefined || reason === '' ? '' : `: ${reason}`
  switch (decision) {
    case 'allow':
      return `allowed by ${actor}`
    case 'deny':
      return `denied by ${actor}${because}`
    case 'expired':
      return 'expired: nobody answered in time'
    case 'withdrawn':
      return `no longer asked${because}`
  }
}

const no = ({ decision }: RequestAnswer, actor: string, what: string, subject: string) =>
  decision === 'expired' ? `${subject} (${what}) was not answered in time, so it is not allowed` : `${actor} denied ${what}`

const questions = ({ questions: all }: Extract<RequestAction, { kind: 'question' }>) =>
  all.map(({ question }) => `- ${question}`).join('\n')

function deed(action: Exclude<RequestAction, { kind: 'question' | 'plan' }>): string {
  switch (action.kind) {
    case 'tool':
      return `your use of the tool ${action.tool} with this input: ${JSON.stringify(action.input)}`
    case 'net':
      return `your call to ${action.host}:${action.port}${action.method === null ? '' : ` (${action.method} ${action.path ?? ''})`}`
    case 'host':
      return `your use of the host's "${action.program}" with ${JSON.stringify(action.params)}`
    case 'spend':
      return `the call of ${action.model}${action.short === true ? ' that your budget did not hold' : ''}`
  }
}
