import { createHash } from 'node:crypto'
import type { Prompt } from '@anchorhold/core/prices'
import type { Dialect, Screened } from './dialect.ts'

/** Remembers what the beginnings of a session's prompts were measured to weigh, so that the next bound is close. */
export type Prefixes = {
  /** The bound's inputs for a request, and how to remember what it really took. */
  weigh(request: Screened): { readonly prompt: Prompt; readonly measured: (promptTokens: number) => void }
}

const prefixesMax = 128

export function prefixes(remembered: Dialect['remembered']): Prefixes {
  /** By a digest of all that stands before and in the last message. */
  const measured = new Map<string, number>()

  return {
    weigh(request) {
      const head = remembered(request.head)
      let digest = sha256(head)
      let knownPrefixTokens = 0
      let knownBytes = 0
      let bytes = Buffer.byteLength(head)
      let imageTokens = 0
      let documents = 0
      let mediaChars = 0
      for (const message of request.messages) {
        const json = remembered(message.json)
        digest = sha256(digest + json)
        bytes += Buffer.byteLength(json)
        imageTokens += message.imageTokens
        documents += message.documents
        mediaChars += message.mediaChars
        const tokens = measured.get(digest)
        if (tokens !== undefined) {
          knownPrefixTokens = tokens
          knownBytes = bytes
          imageTokens = 0
          documents = 0
          mediaChars = 0
        }
      }
      const total = Buffer.byteLength(request.head) + request.messages.reduce((sum, { json }) => sum + Buffer.byteLength(json), 0)
      return {
        prompt: {
          model: request.model,
          knownPrefixTokens,
          restBytes: Math.max(0, total - knownBytes - mediaChars),
          imageTokens,
          documents,
          caching: request.caching,
        },
        measured(promptTokens) {
          measured.delete(digest)
          measured.set(digest, promptTokens)
          if (measured.size > prefixesMax) measured.delete(measured.keys().next().value!)
        },
      }
    },
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('base64')
