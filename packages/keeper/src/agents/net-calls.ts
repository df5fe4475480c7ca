import { AccessAnswer, type AccessAsk, accessPath, FetchAnswer, fetchPath } from '@anchorhold/protocol/net-calls'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'

/** What the tools of an agent ask of its session's net window. Both reject when the window does not answer as it should. */
export interface NetCalls {
  access(ask: AccessAsk, signal: AbortSignal): Promise<AccessAnswer>
  fetch(url: string, signal: AbortSignal): Promise<FetchAnswer>
}

export function netCalls(socketPath: string): NetCalls {
  return {
    access: async (ask, signal) => AccessAnswer.parse(await post(socketPath, accessPath, ask, signal)),
    fetch: async (url, signal) => FetchAnswer.parse(await post(socketPath, fetchPath, { url }, signal)),
  }
}

function post(socketPath: string, path: string, body: object, signal: AbortSignal): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const headers = { host: 'window', 'content-type': 'application/json' }
  const call = request({ socketPath, path, method: 'POST', headers, agent: false, signal }, (response) => {
    text(response)
      .then((said) => {
        if (response.statusCode !== 200) throw new Error(`the window answered ${response.statusCode}`)
        resolve(JSON.parse(said))
      })
      .catch(reject)
  })
  call.on('error', reject)
  call.end(JSON.stringify(body))
  return promise
}
