import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Call = { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string }
/** What is to be `cut` breaks off after the text when that resolves. */
type Said = { readonly text: string; readonly cut?: Promise<void> } | { readonly run: string }

/** A model provider on the loopback of this machine: it keeps what it is sent, and answers as it is told. */
export async function upstream(answer: (prompt: string, results: readonly string[], call: number) => Said) {
  const calls: Call[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      calls.push({ path: request.url ?? '', headers: request.headers, body })
      const { stream, model, messages } = JSON.parse(body) as { stream?: boolean; model: string; messages: Message[] }
      const said = answer(promptIn(messages), resultsIn(messages), calls.length)
      const usage = { input_tokens: 10, output_tokens: 5 }
      const content =
        'text' in said
          ? { type: 'text', text: said.text }
          : { type: 'tool_use', id: `toolu_${calls.length}`, name: 'Bash', input: { command: said.run, description: 'x' } }
      const message = { id: `msg_${calls.length}`, type: 'message', role: 'assistant', model, usage }
      const stop = { stop_reason: 'text' in said ? 'end_turn' : 'tool_use', stop_sequence: null }
      if (stream !== true) {
        response.writeHead(200, { 'content-type': 'application/json' })
        return void response.end(JSON.stringify({ ...message, content: [content], ...stop }))
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const send = (type: string, rest: object) =>
        response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`)
      send('message_start', { message: { ...message, content: [], stop_reason: null, stop_sequence: null } })
      if ('text' in said) {
        send('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
        send('content_block_delta', { index: 0, delta: { type: 'text_delta', text: said.text } })
        if (said.cut !== undefined) return void said.cut.then(() => response.destroy())
      } else {
        send('content_block_start', { index: 0, content_block: { ...content, input: {} } })
        const json = JSON.stringify({ command: said.run, description: 'x' })
        send('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: json } })
      }
      send('content_block_stop', { index: 0 })
      send('message_delta', { delta: stop, usage })
      send('message_stop', {})
      response.end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close').catch(() => {})
    },
  }
}
export type Upstream = Awaited<ReturnType<typeof upstream>>

type Block = { readonly type: string; readonly text?: string; readonly content?: string | readonly Block[] }
type Message = { readonly role: string; readonly content: string | readonly Block[] }

const blocks = ({ content }: Message): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

/** The last thing that a person said, without the agent's own reminders. */
function promptIn(messages: readonly Message[]): string {
  const said = messages
    .filter(({ role }) => role === 'user')
    .flatMap((message) => blocks(message).flatMap(({ type, text }) => (type === 'text' && text !== undefined ? [text] : [])))
    .map((text) => text.replaceAll(/<system-reminder>[\s\S]*?<\/system-reminder>/g, '').trim())
    .filter((text) => text !== '')
  return said.at(-1) ?? ''
}

/** What the tools gave since then. */
function resultsIn(messages: readonly Message[]): string[] {
  const results: string[] = []
  for (const message of messages) {
    for (const block of blocks(message)) {
      if (block.type === 'tool_result') results.push(JSON.stringify(block.content))
      else if (message.role === 'user' && block.type === 'text' && block.text?.startsWith('<system-reminder>') === false)
        results.length = 0
    }
  }
  return results
}
