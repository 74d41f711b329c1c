//! One function a person reads like a recipe: the path of a call.
