import { uploadName } from '@anchorhold/core/upload-name'
import type { ServerResponse } from 'node:http'

/** An answer that is more than the value of its contract. */
export type Reply = { readonly [marked]: true } & ReplyOptions
export type ReplyOptions = {
  readonly headers: Readonly<Record<string, string>>
  /** The body: the value of the contract, text as it is, or what is written by and by. */
  readonly value?: unknown
  readonly text?: string | Buffer
  readonly pour?: (response: ServerResponse) => void
}
const marked = Symbol('reply')

export const reply = (options: ReplyOptions): Reply => ({ ...options, [marked]: true })
export const isReply = (answer: unknown): answer is Reply => typeof answer === 'object' && answer !== null && marked in answer

/** Bytes that a browser saves and never shows, whatever they are. */
export const attachment = (path: string, content: Buffer): Reply =>
  reply({
    text: content,
    headers: {
      'content-type': 'application/octet-stream',
      // https://www.rfc-editor.org/rfc/rfc8187
      'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(uploadName(path))}`,
      'cache-control': 'no-store',
    },
  })

/** A picture that a cell made, and nothing that it could be taken for: it runs nothing also where it is opened by itself. */
export const picture = ({ type, content }: { readonly type: string; readonly content: Buffer }): Reply =>
  reply({
    text: content,
    headers: {
      'content-type': type,
      'content-security-policy': "sandbox; default-src 'none'",
      'content-disposition': 'inline',
      'cache-control': 'no-store',
    },
  })
