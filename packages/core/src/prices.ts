import type { Tokens } from '@anchorhold/protocol/events'
import type { Nanos } from '@anchorhold/protocol/money'

/** Nano-USD for one token of each kind. */
export type Price = {
  readonly input: Nanos
  readonly output: Nanos
  /** Written to the cache for five minutes: 1.25 times the input. */
  readonly cacheWrite: Nanos
  /** Written to the cache for an hour: twice the input. */
  readonly cacheWrite1h: Nanos
  readonly cacheRead: Nanos
}

/** What a call used. The two optional counts are what the four that are stored cannot tell apart. */
export type Used = Tokens & {
  /** How many of `cache_write` are kept for an hour. */
  readonly cache_write_1h?: number
  readonly web_searches?: number
}

const webSearchNanos = 10_000_000

/** List prices of the installed CLI's own catalogue (2.1.325), by the beginning of the model's id. The first match holds. */
const list: readonly (readonly [prefix: string, price: Price, long?: { readonly aboveTokens: number; readonly price: Price }])[] =
  [
    ['rehearsal-', perToken(2000, 10_000)],
    ['claude-haiku-5', perToken(100, 500), { aboveTokens: 100_000, price: perToken(500, 2500) }],
    ['claude-haiku-4', perToken(1000, 5000)],
    ['claude-3-5-haiku', perToken(800, 4000)],
    ['claude-3-haiku', perToken(800, 4000)],
    ['claude-sonnet-5-5', perToken(2000, 10_000, 100)],
    ['claude-sonnet-5', perToken(2000, 10_000)],
    ['claude-sonnet-4', perToken(3000, 15_000)],
    ['claude-3-7-sonnet', perToken(3000, 15_000)],
    ['claude-3-5-sonnet', perToken(3000, 15_000)],
    ['claude-opus-5-5', perToken(4000, 20_000, 200)],
    ['claude-opus-5', perToken(5000, 25_000)],
    ['claude-opus-4-5', perToken(5000, 25_000)],
    ['claude-opus-4-6', perToken(5000, 25_000)],
    ['claude-opus-4-7', perToken(5000, 25_000)],
    ['claude-opus-4-8', perToken(5000, 25_000)],
    ['claude-opus-4', perToken(15_000, 75_000)],
    ['claude-3-opus', perToken(15_000, 75_000)],
    ['claude-fable-5-2', perToken(8000, 40_000, 200)],
    ['claude-fable-5-1', perToken(10_000, 50_000, 250)],
    ['claude-fable-5', perToken(10_000, 50_000)],
    ['claude-mythos-5-2', perToken(8000, 40_000, 200)],
    ['claude-mythos-5-1', perToken(10_000, 50_000, 250)],
    ['claude-mythos-5', perToken(10_000, 50_000)],
  ]
/** What a model costs that is not in the list: as much as the dearest that is. */
const dearest = list.map(([, price]) => price).reduce((a, b) => (b.output > a.output ? b : a))

/** Who sells a model: whoever made it or runs it for the owner, or one who sells the models of everybody under names that the cell
 *  chooses from. */
export type Seller = 'maker' | 'reseller'
/** The highest list price that a reseller has had (o1-pro), for models that nothing is known of. */
const dearestResold = perToken(150_000, 600_000)
/** Makers whose models every list has far below the dearest of ours, and those of a maker that has dear ones as well. */
const resoldBelow = new Set(
  (
    'alibaba allenai amazon arcee-ai baidu bytedance bytedance-seed cohere deepcogito deepseek google ibm-granite inception inclusionai ' +
    'kwaipilot liquid meituan meta-llama microsoft minimax mistralai moonshotai nousresearch nvidia prime-intellect qwen stepfun tencent ' +
    'thudm tngtech x-ai xiaomi z-ai'
  ).split(' '),
)
const openaiBelow = /^openai\/(?:codex|gpt-oss|gpt-5|gpt-4-1|gpt-4o|o3|o4-mini)(?!.*-pro)/
/** What is dear whoever made it. */
const resoldDear = /image|audio|video|music|lyria|search|research|realtime/

/** No model takes or gives more in one call; the largest there are answer with 128,000. */
export const callTokensMax = 1_000_000
/** How long an answer can have become in that time. The fastest models that their maker sells write about 200 tokens a second. */
export const writtenAtMost = (tookMs: number): number => 2_000 + Math.ceil((tookMs / 1000) * 500)
/** The most that one call can cost. */
export const callNanosMax: Nanos = callTokensMax * (dearestResold.cacheWrite1h + dearestResold.output)

/** The price of a model for a prompt of that many tokens, and whether the list knows it. */
export function priceOf(
  model: string,
  promptTokens: number,
  seller: Seller = 'maker',
): { readonly price: Price; readonly known: boolean } {
  const { name, entry } = lookUp(model)
  if (entry === undefined) {
    const isBelow = (resoldBelow.has(name.split('/', 1)[0]!) || openaiBelow.test(name)) && !resoldDear.test(name)
    return { price: seller === 'maker' || isBelow ? dearest : dearestResold, known: false }
  }
  const [, price, long] = entry
  return { price: long !== undefined && promptTokens > long.aboveTokens ? long.price : price, known: true }
}

type Found = { readonly name: string; readonly entry: (typeof list)[number] | undefined }
/** Every call looks the same few models up several times. Cells choose what they call them, so not more are kept than that. */
const found = new Map<string, Found>()
const foundMax = 100

function lookUp(model: string): Found {
  const known = found.get(model)
  if (known !== undefined) return known
  const name = canonical(model)
  // Resellers have a faster one of some models, at several times the price.
  const entry = name.includes('-fast') ? undefined : list.find(([prefix]) => name.startsWith(prefix))
  if (found.size >= foundMax) found.clear()
  found.set(model, { name, entry })
  return { name, entry }
}

/** What a call cost, in whole nano-USD; an unknown model is charged as the dearest that it can be. */
export function costOf(model: string, used: Used, seller: Seller = 'maker'): Nanos {
  const { price } = priceOf(model, used.input + used.cache_read + used.cache_write, seller)
  const write1h = Math.min(used.cache_write_1h ?? 0, used.cache_write)
  return (
    used.input * price.input +
    used.output * price.output +
    used.cache_read * price.cacheRead +
    (used.cache_write - write1h) * price.cacheWrite +
    write1h * price.cacheWrite1h +
    (used.web_searches ?? 0) * webSearchNanos
  )
}

export type Prompt = {
  readonly model: string
  /** Tokens that an earlier call measured for the beginning of this very prompt. */
  readonly knownPrefixTokens: number
  /** The rest in bytes, without what is in images and documents. */
  readonly restBytes: number
  /** Tokens of the images in the rest (see `imageTokens`). */
  readonly imageTokens: number
  /** How many documents are in the rest, of which each page is an image and a text. */
  readonly documents: number
  /** The longest that the prompt asks for its parts to be cached. */
  readonly caching: 'none' | '5m' | '1h'
}

/** What the API adds to a prompt by itself: the words that explain tools and roles to the model. */
const addedTokens = 600
/** A token is hardly ever shorter than two bytes of JSON. */
const bytesPerToken = 2

/** A bound on a call's price: what the prompt may cost, and what each token of the answer does. */
export function worstCase(
  prompt: Prompt,
  seller: Seller = 'maker',
): {
  readonly promptTokens: number
  readonly promptNanos: Nanos
  readonly perOutputToken: Nanos
} {
  const withoutPages = prompt.knownPrefixTokens + Math.ceil(prompt.restBytes / bytesPerToken) + prompt.imageTokens + addedTokens
  const promptTokens = withoutPages + (prompt.documents > 0 ? pageTokens(prompt.model, withoutPages) : 0)
  const { price } = priceOf(prompt.model, promptTokens, seller)
  const perInput = { none: price.input, '5m': price.cacheWrite, '1h': price.cacheWrite1h }[prompt.caching]
  return { promptTokens, promptNanos: promptTokens * perInput, perOutputToken: price.output }
}

/** The most that one image can cost, whatever its size. */
const imageTokensMax = 4784
/** The most pages that one request may have, and what the text of a page takes, as documented. */
const pagesMax = 600
const pageTextTokens = 3000

/** Pages are packed, so their number is not that of their bytes. What a model cannot take is refused, and costs nothing. */
function pageTokens(model: string, otherTokens: number): number {
  const room = Math.max(0, contextTokensOf(model) - otherTokens)
  return Math.min(room, pagesMax * (pageTextTokens + imageTokensMax))
}

/** How long a prompt of a model can be. What is not known to end sooner may be as long as any. */
function contextTokensOf(model: string): number {
  return /^claude-(?:3|haiku-4|opus-4-(?:0|1|2025|5))/.test(canonical(model)) ? 200_000 : callTokensMax
}

/** Width times height over 750, as documented; an image whose size is not known counts as the largest. */
export function imageTokens(size: { readonly width: number; readonly height: number } | null): number {
  if (size === null) return imageTokensMax
  return Math.min(imageTokensMax, Math.ceil((size.width * size.height) / 750) + 1)
}

/** `anthropic/claude-sonnet-4.5`, `claude-opus-4-8[1m]` and `us.anthropic.claude-…` all name models of the list. */
function canonical(model: string): string {
  const name = model.toLowerCase().replaceAll('.', '-')
  const start = name.search(/claude-|rehearsal-/)
  return start <= 0 || '/-'.includes(name[start - 1]!) ? name.slice(Math.max(start, 0)) : name
}

function perToken(input: Nanos, output: Nanos, cacheRead: Nanos = Math.ceil(input / 10)): Price {
  return { input, output, cacheWrite: Math.ceil((input * 5) / 4), cacheWrite1h: input * 2, cacheRead }
}
