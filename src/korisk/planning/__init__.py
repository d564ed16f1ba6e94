"""From a curve to a sample size: fit, posterior, forecast, plan, comparison."""
