import { expect, test } from 'vitest'
import { api } from './api/api.ts'
import { client, openStream, Unanswered } from './client.ts'

/** A client of a daemon that answers this, and what it was asked. */
function talk(answer: () => Response) {
  const asked: { readonly url: string; readonly init: RequestInit | undefined }[] = []
  const options = {
    url: 'http://127.0.0.1:7777',
    headers: { authorization: 'Bearer t' },
    fetch: async (url: string | URL | Request, init?: RequestInit) => {
      asked.push({ url: url instanceof Request ? url.url : String(url), init })
      return answer()
    },
  }
  return { asked, options, api: client(options) }
}

test('client() puts parameters where the contract has them, and escapes them', async () => {
  const { api, asked } = talk(() => Response.json({ ok: true }))
  await api.deleteProvider({ params: { name: 'a/../b?c' } })
  expect(asked[0]?.url).toBe('http://127.0.0.1:7777/api/v1/providers/a%2F..%2Fb%3Fc')
  expect(asked[0]?.init).toMatchObject({ method: 'DELETE', headers: { authorization: 'Bearer t' } })
})

test('client() leaves out what is not given, and sends a body as JSON', async () => {
  const { api, asked } = talk(() => Response.json({ left_running: 1 }))
  await api.shutdown({ body: { all: true } })
  expect(asked[0]?.init).toMatchObject({ method: 'POST', body: '{"all":true}', headers: { 'content-type': 'application/json' } })
  const list = talk(() => Response.json({ hits: [], sessions: [], more: false, deeper: [] }))
  await list.api.search({ query: { q: 'a b&c', session: undefined } })
  expect(list.asked[0]?.url).toContain('/search?q=a+b%26c')
  expect(list.asked[0]?.init).not.toHaveProperty('body')
})

test('client() throws the failure that the daemon names', async () => {
  const { api } = talk(() => Response.json({ error: { code: 'wrong_state', message: 'No', hint: 'Do' } }, { status: 409 }))
  await expect(api.health()).rejects.toMatchObject({ name: 'Failure', code: 'wrong_state', message: 'No', hint: 'Do' })
})

test.each([
  ['no JSON', () => new Response('<html>', { status: 502 })],
  ['nothing', () => new Response(null, { status: 504 })],
  ['another shape', () => Response.json({ oops: 1 }, { status: 500 })],
  ['a word', () => Response.json('no available server', { status: 503 })],
])('client() takes a refusal that is %s for that of somebody before the daemon', async (_, answer) => {
  await expect(talk(answer).api.health()).rejects.toBeInstanceOf(Unanswered)
})

test('client() believes a daemon whose code it does not know, and a proxy that finds a request too large', async () => {
  const newer = talk(() => Response.json({ error: { code: 'new', message: 'x' } }, { status: 418 }))
  await expect(newer.api.health()).rejects.toMatchObject({ name: 'Failure', code: 'internal', message: 'x' })
  const small = talk(() => new Response('<html>', { status: 413 }))
  await expect(small.api.health()).rejects.toMatchObject({ name: 'Failure', code: 'too_large' })
})

test('client() holds an answer to the contract that it is given', async () => {
  const wrong = talk(() => Response.json({ ok: 'yes' }))
  await expect(client({ ...wrong.options, contract: api }).health()).rejects.toThrow()
  expect(await wrong.api.health()).toEqual({ ok: 'yes' })
})

test('client() takes a page that comes in place of an answer for that of somebody before the daemon', async () => {
  await expect(talk(() => new Response('<html>Welcome to our network')).api.health()).rejects.toBeInstanceOf(Unanswered)
})

test('openStream() asks for a stream, and throws what the daemon says instead of one', async () => {
  const { options, asked } = talk(() => new Response(': hi\n\n'))
  const body = await openStream(options, 'events', { query: { after: 3 } }, new AbortController().signal)
  expect(await new Response(body).text()).toBe(': hi\n\n')
  expect(asked[0]).toMatchObject({ url: expect.stringContaining('/events?after=3') as string })
  expect(asked[0]?.init?.headers).toMatchObject({ accept: 'text/event-stream' })
  const refused = talk(() => Response.json({ error: { code: 'not_found', message: 'No' } }, { status: 404 }))
  await expect(openStream(refused.options, 'events', {}, new AbortController().signal)).rejects.toMatchObject({
    code: 'not_found',
  })
})
