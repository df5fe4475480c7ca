import { Failure } from '@anchorhold/protocol/failures'

/** Argon2id with what OWASP asks for: 19 MiB, two passes, one lane.
 *  https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html#argon2id */
const cost = { memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 } as const
/** Each takes a thread and 19 MiB: more of them at a time would only keep everybody waiting. */
const atOnceMax = 4
/** What a hash from elsewhere may cost: a larger one would be a way to fill the memory. */
const memoryKibMax = 256 * 1024

export interface Passwords {
  hash(password: string): Promise<string>
  /** Takes as long for a hash that is not there, so that nobody learns who has one. */
  isRight(password: string, hash: string | null): Promise<boolean>
}

export function passwords(): Passwords {
  // Loaded when the first password is shown: most starts need none.
  const argon2 = () => import('@node-rs/argon2')
  let running = 0
  let decoy: Promise<string> | null = null
  async function oneOfFew<T>(work: () => Promise<T>): Promise<T> {
    if (running >= atOnceMax)
      throw new Failure('too_many', 'Cannot check the password: too many others are being checked', {
        hint: 'Try again in a moment',
        retryMs: 1000,
      })
    running++
    try {
      return await work()
    } finally {
      running--
    }
  }
  const hash = async (password: string) => (await argon2()).hash(password.normalize('NFKC'), cost)
  return {
    hash: (password) => oneOfFew(() => hash(password)),
    isRight: (password, known) =>
      oneOfFew(async () => {
        decoy ??= hash('nobody has this password')
        const right = await (await argon2()).verify(known ?? (await decoy), password.normalize('NFKC'))
        return right && known !== null
      }),
  }
}

/** A hash that was made elsewhere: a PHC string of Argon2, or its base64 as `PASSWORD_HASH` has it. */
export function readPasswordHash(text: string): string {
  const plain = text.trim().startsWith('$') ? text.trim() : Buffer.from(text.trim(), 'base64').toString('latin1').trim()
  const memory = /^\$argon2(?:id|i|d)\$v=19\$m=(\d{1,9}),t=\d{1,3},p=\d{1,3}\$[\w+/]{8,100}\$[\w+/]{16,200}$/.exec(plain)?.[1]
  if (memory === undefined || Number(memory) > memoryKibMax)
    throw new Failure('bad_request', 'Cannot use the password hash: it is no Argon2 hash in PHC form, nor the base64 of one', {
      hint: 'Leave it out, and set a password by anchorhold user password owner',
    })
  return plain
}
