import { z } from 'zod'

/** What an id names, and the prefix that says so wherever the id is seen. */
const prefixes = { session: 'ses', prompt: 'prm', request: 'req', token: 'tok', user: 'usr', pushDevice: 'psh' } as const
type Kind = keyof typeof prefixes

const body = '[0-9a-z]{16}'
export const SessionId = z
  .string()
  .regex(new RegExp(`^ses_${body}$`))
  .brand('SessionId')
export type SessionId = z.infer<typeof SessionId>
export const RequestId = z
  .string()
  .regex(new RegExp(`^req_${body}$`))
  .brand('RequestId')
export type RequestId = z.infer<typeof RequestId>
export const TokenId = z
  .string()
  .regex(new RegExp(`^tok_${body}$`))
  .brand('TokenId')
export type TokenId = z.infer<typeof TokenId>
export const UserId = z
  .string()
  .regex(new RegExp(`^usr_${body}$`))
  .brand('UserId')
export type UserId = z.infer<typeof UserId>
export const PushDeviceId = z
  .string()
  .regex(new RegExp(`^psh_${body}$`))
  .brand('PushDeviceId')
export type PushDeviceId = z.infer<typeof PushDeviceId>
/** Whom a house has from the beginning. */
export const firstOwner = 'usr_0000000000000000' as UserId
/** Carries a whole UUID, because the agent's own transcript must be able to hold it (see `uuidOfPrompt`). */
export const PromptId = z
  .string()
  .regex(/^prm_[0-9a-f]{32}$/)
  .brand('PromptId')
export type PromptId = z.infer<typeof PromptId>

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'

/** Random bytes come in from outside, so that a simulation can choose them. */
export type RandomBytes = (count: number) => Uint8Array

function name(kind: Exclude<Kind, 'prompt'>, random: RandomBytes): string {
  // 16 characters of 5 bits: 80 random bits, short enough to be typed from a phone's screen.
  const letters = [...random(16)].map((byte) => alphabet[byte & 31])
  return `${prefixes[kind]}_${letters.join('')}`
}
export const newSessionId = (random: RandomBytes) => name('session', random) as SessionId
export const newRequestId = (random: RandomBytes) => name('request', random) as RequestId
export const newTokenId = (random: RandomBytes) => name('token', random) as TokenId
export const newUserId = (random: RandomBytes) => name('user', random) as UserId
export const newPushDeviceId = (random: RandomBytes) => name('pushDevice', random) as PushDeviceId

export function newPromptId(random: RandomBytes): PromptId {
  const bytes = random(16)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  return `prm_${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}` as PromptId
}

/** The UUID under which the agent's transcript knows a prompt. */
export function uuidOfPrompt(id: PromptId): `${string}-${string}-${string}-${string}-${string}` {
  const hex = id.slice('prm_'.length)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** The prompt that a transcript's UUID stands for, if it can be one of ours. */
export function promptOfUuid(uuid: string): PromptId | null {
  const parsed = PromptId.safeParse(`prm_${uuid.replaceAll('-', '').toLowerCase()}`)
  return parsed.success ? parsed.data : null
}
