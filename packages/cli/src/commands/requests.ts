import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { requestWords } from '../request-words.ts'
import { ago } from '../terminal.ts'

export function requests(program: Command, context: Context): void {
  program
    .command('requests')
    .summary('what waits for your answer')
    .option('-a, --all', 'the settled ones too')
    .option('--json', 'one request a line')
    .action(async (options: { all?: true; json?: true }) => {
      const { api } = await context.daemon()
      const { requests: list } = await api.listRequests({ query: options.all ? { all: 'true' } : {} })
      const { terminal } = context
      if (options.json) return list.forEach((request) => terminal.line(JSON.stringify(request)))
      if (list.length === 0) return terminal.line('Nothing waits for you.')
      for (const request of list) {
        const settled =
          request.answer === null ? terminal.style('yellow', 'open') : terminal.style('dim', request.answer.decision)
        terminal.line(
          `${request.id}  ${settled}  ${ago(request.opened_at)}  ${request.session}  ${terminal.foreign(request.session_name)}`,
        )
        for (const line of requestWords(request.action)) terminal.line(`    ${terminal.foreign(line)}`)
      }
    })
  program
    .command('allow')
    .summary('allow a request, or answer its question')
    .argument('<request>')
    .option('--answer <text...>', "the answer to each question, in order: an option's number or label, or your own words")
    .action(async (id: string, options: { answer?: string[] }) => {
      const { api } = await context.daemon()
      const request = await api.getRequest({ params: { id } })
      const answers: Record<string, string> = {}
      if (request.action.kind === 'question') {
        const given = options.answer ?? []
        if (given.length !== request.action.questions.length) {
          throw new Failure(
            'bad_request',
            `The request has ${request.action.questions.length} questions, and ${given.length} answers came`,
            { hint: 'Give --answer once for each' },
          )
        }
        for (const [index, { question, options: choices }] of request.action.questions.entries()) {
          const word = given[index]!
          answers[question] = choices[Number(word) - 1]?.label ?? word
        }
      }
      const settled = await api.answerRequest({
        params: { id },
        body: { decision: 'allow', ...(request.action.kind === 'question' ? { answers } : {}) },
      })
      context.terminal.line(`${id}: ${settled.answer?.decision ?? 'allow'}`)
    })
  program
    .command('deny')
    .summary('deny a request')
    .argument('<request>')
    .option('--reason <text>', 'the agent reads it')
    .action(async (id: string, options: { reason?: string }) => {
      const { api } = await context.daemon()
      await api.answerRequest({
        params: { id },
        body: { decision: 'deny', ...(options.reason === undefined ? {} : { reason: options.reason }) },
      })
      context.terminal.line(`${id}: denied`)
    })
}
