"""How fast is the whole of training: environments, policy and update?"""
