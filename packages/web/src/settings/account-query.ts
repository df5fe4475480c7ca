import { queryOptions } from '@tanstack/react-query'
import { daemon } from '../daemon.ts'

/** One's ways in and devices: no event tells of them. */
export const accountQuery = queryOptions({ queryKey: ['account'], queryFn: () => daemon.account(), staleTime: 0 })
