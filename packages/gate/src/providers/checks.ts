import type { Provider } from '@anchorhold/protocol/providers'
import { Failure } from '@anchorhold/protocol/failures'
import type { Verbs } from '../verbs.ts'
import type { Dialect } from '../windows/model/dialect.ts'
import type { Outgoing } from './connections.ts'
import { baseOf, type ProviderParts, type Upstream, upstream } from './providers.ts'

/** What the gate is asked about providers. */
export const providerVerbs = (dialect: Dialect, parts: ProviderParts): Verbs<'check' | 'test'> => ({
  check: ({ provider }) => checkProvider(provider, parts),
  test: ({ provider, model }) => testProvider(provider, model, dialect, parts),
})

/** What keeps a provider's credential from being used, in words; null when it is at hand. */
async function checkProvider(provider: Provider, parts: ProviderParts): Promise<string | null> {
  try {
    await upstream(provider, parts).authorise()
    return null
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return error.hint === undefined ? error.message : `${error.message}. ${error.hint}`
  }
}

type Verdict = {
  readonly verdict: 'ok' | 'refused' | 'unreachable' | 'incompatible'
  readonly message: string
}

const testTimeoutMs = 30_000
const testAnswerBytesMax = 256 * 1024

/** One call for one token, to say whether the provider works as it is set up. */
async function testProvider(provider: Provider, model: string, dialect: Dialect, parts: ProviderParts): Promise<Verdict> {
  let status: number
  let answer: string
  try {
    const target = upstream(provider, parts)
    const credential = await target.authorise()
    ;({ status, answer } = await exchange(target, dialect.probe(model, credential.key)))
    // What a provider says goes to a person's screen, and may hold the credential that it refuses.
    answer = credential.scrubber?.text(answer) ?? answer
  } catch (error) {
    if (error instanceof Failure) return { verdict: 'refused', message: error.message }
    return { verdict: 'unreachable', message: (error as Error).message }
  }
  return judge(provider, model, dialect, status, dialect.readProbe(Buffer.from(answer, 'latin1').toString('utf8')))
}

type Read = ReturnType<Dialect['readProbe']>
function judge(provider: Provider, model: string, dialect: Dialect, status: number, { kind, error }: Read): Verdict {
  const said = error === null ? '' : `: ${error.slice(0, 300)}`
  if (status === 200 && kind === 'answer')
    return { verdict: 'ok', message: `Provider "${provider.name}" answered with model "${model}"` }
  if (status === 401 || status === 403)
    return { verdict: 'refused', message: `Provider "${provider.name}" refused the credential${said}` }
  if (kind !== 'error') {
    return {
      verdict: 'incompatible',
      message: `What answers at "${baseOf(provider).origin}" does not speak ${dialect.speaks} (status ${status})`,
    }
  }
  if (status === 429 || status >= 500) {
    return {
      verdict: 'ok',
      message: `Provider "${provider.name}" took the credential, but is busy now (status ${status})${said}`,
    }
  }
  return {
    verdict: 'refused',
    message: `Provider "${provider.name}" refused a call to model "${model}" (status ${status})${said}`,
  }
}

function exchange(target: Upstream, request: Outgoing): Promise<{ status: number; answer: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; answer: string }>()
  const chunks: Buffer[] = []
  let status = 0
  let bytes = 0
  const fail = (code: string) => reject(new Error(target.unreachable(code)))
  const sent = target.dial(
    request,
    {
      answered: (given) => void (status = given),
      data(chunk) {
        bytes += chunk.length
        if (bytes <= testAnswerBytesMax) chunks.push(chunk)
      },
      ended: () => resolve({ status, answer: Buffer.concat(chunks).toString('latin1') }),
      failed: ({ code }) => fail(code),
    },
    'fresh',
  )
  const late = setTimeout(() => {
    sent.cut()
    fail('ETIMEDOUT')
  }, testTimeoutMs)
  return promise.finally(() => clearTimeout(late))
}
