import { client } from '@anchorhold/protocol/client'
import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { promptly } from './promptly.ts'

const session = 'ses_0000000000000001' as SessionId

test('promptly() gives up a call that nobody answers, and waits for what takes its time', async () => {
  const over = new AbortController()
  /** A connection that takes what is sent and says nothing. */
  const hole: typeof fetch = (_, init) =>
    new Promise((_resolve, reject) =>
      init?.signal?.addEventListener('abort', () => reject(init.signal!.reason as Error), { once: true }),
    )
  const calls = promptly(client({ url: '', fetch: hole }), () => over.signal)
  const left = new AbortController()
  const sent = calls.prompt({ params: { id: session }, body: { text: 'a' } })
  const read = calls.getSession({ params: { id: session } }, left.signal)
  const upload = calls.uploadFile({ params: { id: session }, body: { name: 'a', data: '' } }).then(
    () => 'ended',
    () => 'ended',
  )
  left.abort(new Error('left'))
  await expect(read).rejects.toThrow('left')
  over.abort(new Error('over'))
  await expect(sent).rejects.toThrow('over')
  expect(await Promise.race([upload, Promise.resolve('waits')])).toBe('waits')
})
