// A model provider that answers at once, or as slowly as the prompt says: a small JSON answer, or a stream of 200 tokens, each its own
// write.
//   node upstream.ts PORT_FILE
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'

const usage = { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 }
const answer = JSON.stringify({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-sonnet-5',
  content: [{ type: 'text', text: 'hello' }],
  stop_reason: 'end_turn',
  usage,
})
const frame = (event: { type: string }) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (text: string) => (body += text))
  request.on('end', async () => {
    if (!body.includes('"stream":true')) {
      const respond = () =>
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(answer) }).end(answer)
      const pause = /take (\d+) ms/.exec(body)
      if (pause === null) respond()
      else setTimeout(respond, Number(pause[1]))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-sonnet-5', content: [], usage }
    response.write(frame({ type: 'message_start', message } as { type: string }))
    response.write(
      frame({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as { type: string }),
    )
    const pace = /a word every (\d+) ms/.exec(body)
    for (let i = 0; i < 200; i++) {
      if (pace !== null) await wait(Number(pace[1]))
      response.write(
        frame({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: `word${i} ` } } as { type: string }),
      )
    }
    response.write(frame({ type: 'content_block_stop', index: 0 } as { type: string }))
    response.write(
      frame({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 200 } } as { type: string }),
    )
    response.end(frame({ type: 'message_stop' }))
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  writeFileSync(process.argv[2]!, String(typeof address === 'object' && address !== null ? address.port : 0))
})
