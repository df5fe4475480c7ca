import { type Nanos, parseUsd, whyNotUsd } from '@anchorhold/protocol/money'
import { InvalidArgumentError } from 'commander'

/** Reads the number that a flag is given; the command line is wrong where it is none. */
export function numberFrom(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = /^\d+$/.test(text) ? Number(text) : NaN
    if (number >= min && number <= max) return number
    const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`
    throw new InvalidArgumentError(`It is not a whole number ${range}.`)
  }
}

/** Reads an amount of money. */
export function usd(text: string): Nanos {
  const nanos = parseUsd(text)
  if (nanos === null) throw new InvalidArgumentError(`"${text}" ${whyNotUsd(text)}: write it as 0.50 or 5.`)
  return nanos
}

/** Reads the path of a file or a folder. An empty one comes from a variable that is not set, and would mean the folder one is in. */
export function path(text: string): string {
  if (text === '') throw new InvalidArgumentError('It is empty: name a file or a folder, or leave it out.')
  return text
}

/** For flags that may be given several times. */
export const collect = (value: string, before: string[]): string[] => [...before, value]
export const collectPaths = (value: string, before: string[]): string[] => collect(path(value), before)
